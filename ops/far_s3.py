#!/usr/bin/python3
"""An S3 that is far away: takes connections and passes them on, and what a client sends comes so many milliseconds later.

  ops/far_s3.py HOST:PORT MILLISECONDS

Prints `listen=ADDRESS` when it takes connections; ends with SIGTERM."""

import asyncio
import signal
import sys


class ToS3(asyncio.Protocol):
    """The connection to the real S3; its answers go back as they come."""

    def __init__(self, client):
        self.client = client

    def data_received(self, data):
        self.client.write(data)

    def connection_lost(self, _error):
        self.client.close()


class FromClient(asyncio.Protocol):
    def __init__(self, target, delay):
        self.target, self.delay = target, delay
        self.client = self.s3 = None
        self.early = []  # came before the connection to S3 was there

    def connection_made(self, transport):
        self.client = transport
        # Kept: a task that nobody refers to may be dropped.
        self.connecting = asyncio.ensure_future(self.connect())

    async def connect(self):
        try:
            self.s3, _ = await asyncio.get_running_loop().create_connection(lambda: ToS3(self.client), *self.target)
        except OSError:
            self.client.close()
            return
        for data in self.early:
            self.s3.write(data)
        self.early = []

    def pass_on(self, data):
        if self.s3 is None:
            self.early.append(data)
        else:
            self.s3.write(data)

    def data_received(self, data):
        # The same delay for all keeps their order.
        asyncio.get_running_loop().call_later(self.delay, self.pass_on, data)

    def connection_lost(self, _error):
        if self.s3:
            self.s3.close()


async def main(target, delay):
    host, _, port = target.rpartition(":")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: FromClient((host, int(port)), delay), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    print(f"ready listen={address[0]}:{address[1]}", flush=True)
    await ended.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]) / 1000))
