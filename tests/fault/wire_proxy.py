"""A bad wire: a TCP proxy in front of a node that knows what a frame is (docs/WIRE.md), and bends some of those that
carry blocks."""

import asyncio
import contextlib
import random
import socket
import struct
import threading

from netns import end_loop

HEAD = 48
REQUEST, REPLY = 1, 2
TRICKLE_BYTES_PER_SECOND = 1000
DELAY_SECONDS = 0.1

# What is done to a reply with a block, or to a question for one.
DAMAGE = ("flip_head", "flip_message", "flip_payload", "twice", "cut_out", "cut_short", "reset", "delay", "flip_question",
          "question_twice")
STALLS = ("stall", "trickle")


def flipped(frame, begin, end, rng):
    at = rng.randrange(begin, end)
    return frame[:at] + bytes([frame[at] ^ (1 << rng.randrange(8))]) + frame[at + 1:]


class WireProxy:
    """Between its own address and `target`, which is set before the first connection comes."""

    def __init__(self, seed=0):
        self.target = None
        self.rng = random.Random(seed)
        self.made, self._fault, self._every, self._left, self._seen = 0, None, 1, 0, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def bend(self, fault, every, times):
        """From now on each `every`th frame with a block, `times` at most; made counts them."""
        self.made, self._seen, self._every, self._left, self._fault = 0, 0, every, times, fault

    def straighten(self):
        self._fault = None

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listening.close()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listening))
        self._loop.run_forever()
        end_loop(self._loop)

    async def _serve(self, reader, writer):
        host, port = self.target.rsplit(":", 1)
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        ways = [asyncio.ensure_future(self._carry(reader, far_writer, REQUEST)),
                asyncio.ensure_future(self._carry(far_reader, writer, REPLY))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, far_writer):
                end.close()

    async def _carry(self, reader, writer, kind):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(HEAD)
                message, payload = struct.unpack_from("<II", head, 28)
                frame = head + await reader.readexactly(message + payload)
                fault = self._fault_of(head[4], message, payload, kind)
                if fault is None:
                    writer.write(frame)
                elif not await self._bent(fault, frame, message, writer):
                    return
                await writer.drain()

    def _fault_of(self, kind, message, payload, way):
        """What happens to this frame, if anything."""
        fault = self._fault
        if fault is None or kind != way or ("question" in fault) != (kind == REQUEST):
            return None
        # Questions for a block name its key; other ones are shorter.
        if (kind == REPLY and payload == 0) or (kind == REQUEST and message < 60):
            return None
        self._seen += 1
        if self._left == 0 or self._seen % self._every != 0:
            return None
        self._left -= 1
        self.made += 1
        return fault

    async def _bent(self, fault, frame, message, writer):
        """False: this connection ends here."""
        half = len(frame) // 2
        if fault in ("flip_head", "flip_question"):
            writer.write(flipped(frame, 0, HEAD, self.rng))
        elif fault == "flip_message":
            writer.write(flipped(frame, HEAD, HEAD + message, self.rng))
        elif fault == "flip_payload":
            writer.write(flipped(frame, HEAD + message, len(frame), self.rng))
        elif fault in ("twice", "question_twice"):
            writer.write(frame + frame)
        elif fault == "cut_out":
            writer.write(frame[:half] + frame[half + 100:])
        elif fault == "delay":
            await asyncio.sleep(DELAY_SECONDS)
            writer.write(frame)
        elif fault == "stall":
            writer.write(frame[:half])
            await asyncio.sleep(60)
        elif fault == "trickle":
            for at in range(0, len(frame), TRICKLE_BYTES_PER_SECOND // 10):
                writer.write(frame[at:at + TRICKLE_BYTES_PER_SECOND // 10])
                await writer.drain()
                await asyncio.sleep(0.1)
        else:
            writer.write(frame[:half])
            await writer.drain()
            if fault == "reset":
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        return True
