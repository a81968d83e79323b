"""What parts of this machine do by themselves. Checksums: what they cost a core. And what loopback TCP carries, as the limit of
what a mount can read from a node: each connection asks for a
message with a few bytes and takes the answer, which is always the same memory, into a buffer. Both ends are programs of
their own, as mount and node are."""

import json
import socket
import subprocess
import sys
import threading
import time

from local_cluster import ClusterError

MESSAGE = 1 << 20  # a READ of a large file that is read ahead
SECONDS = 1.0
CHECKSUM_BYTES = 1 << 30
ASK = b"next message, pl"


def checksum_seconds_per_byte(programs, folder, length):
    """CPU seconds of one core for the checksums of blocks of this length that were copied a moment ago, for each byte; None
    where the programs (--programs) have no store_bench."""
    if not (programs / "store_bench").exists():
        return None
    words = [programs / "store_bench", "--folder", folder, "checksums", "--length", length,
             "--objects", max(1, CHECKSUM_BYTES // length)]
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False)
    if result.returncode != 0:
        raise ClusterError(f"checksums could not be measured: {result.stderr.strip()[-300:]}")
    figures = json.loads(result.stdout)
    return figures["cpu_s"] / figures["bytes"]


def gb_per_second(connections):
    """With so many connections at a time."""
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        result = subprocess.run([sys.executable, __file__, str(port), str(connections)], capture_output=True, text=True,
                                timeout=60, check=False)
        if result.returncode != 0:
            raise ClusterError(f"raw TCP could not be measured: {result.stderr.strip()[-300:]}")
        return json.loads(result.stdout)
    finally:
        server.stdin.close()  # it ends by that
        server.stdout.close()
        server.wait(20)


def serve():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    sys.stdin.read()


def accept(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection):
    message = memoryview(bytes(MESSAGE))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while connection.recv(len(ASK)):
            connection.sendall(message)


def ask(port, begin, tally):
    buffer = bytearray(MESSAGE)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin.wait()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            connection.sendall(ASK)
            if connection.recv_into(buffer, MESSAGE, socket.MSG_WAITALL) != MESSAGE:
                raise OSError("the server closed the connection")
            tally.append(MESSAGE)


def main(port, connections):
    begin, tallies = threading.Barrier(connections + 1), [[] for _ in range(connections)]
    threads = [threading.Thread(target=ask, args=(port, begin, tally)) for tally in tallies]
    for thread in threads:
        thread.start()
    begin.wait()
    started = time.monotonic()
    for thread in threads:
        thread.join()
    print(json.dumps(sum(map(sum, tallies)) / (time.monotonic() - started) / 1e9))


if __name__ == "__main__":
    serve() if len(sys.argv) == 1 else main(*map(int, sys.argv[1:]))
