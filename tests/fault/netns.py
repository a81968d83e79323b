"""Machines on one: network namespaces with an address each, joined by a bridge in a namespace of its own. They have no
names and belong to this process: they end with it, however it ends, and with them every rule in them. The namespace that
the test was started in is never changed."""

import asyncio
import contextlib
import ctypes
import os
import re
import shutil
import socket
import subprocess
import sys
import threading

SKIPPED = 77
NETWORK = "10.77.0"
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_OWN = "/proc/thread-self/ns/net"


def _check(code, what):
    if code != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def _coming_back():
    """What this thread does to its namespace in here ends here."""
    home = os.open(_OWN, os.O_RDONLY)
    try:
        yield
    finally:
        _check(_LIBC.setns(home, _CLONE_NEWNET), "setns")
        os.close(home)


class Machine:
    """A network namespace; `address` is its own in NETWORK."""

    def __init__(self, name, address=""):
        self.name, self.address = name, address
        with _coming_back():
            _check(_LIBC.unshare(_CLONE_NEWNET), "unshare")
            self.descriptor = os.open(_OWN, os.O_RDONLY)
            self.run("ip", "link", "set", "lo", "up")

    @contextlib.contextmanager
    def inside(self):
        """This thread, and the processes that it starts, are on the machine."""
        with _coming_back():
            _check(_LIBC.setns(self.descriptor, _CLONE_NEWNET), "setns")
            yield

    def run(self, *words, check=True):
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        if check and result.returncode != 0:
            raise OSError(f"{' '.join(map(str, words))} on {self.name}: {result.stderr.strip()}")
        return result.stdout

    def do(self, *words, check=True):
        with self.inside():
            return self.run(*words, check=check)

    def iptables(self, *words):
        return self.do("iptables", "-w", *words)

    def dropped(self):
        """Packets that the rules of drop() and lose() have taken so far."""
        rows = self.iptables("-L", "-v", "-n", "-x").splitlines()
        return sum(int(row.split()[0]) for row in rows if re.match(r" *\d+ +\d+ +DROP ", row))

    def drop(self, other, to=True, came=True):
        """Nothing goes to the other machine, and what comes from it is lost."""
        for wanted, chain, side in ((to, "OUTPUT", "-d"), (came, "INPUT", "-s")):
            if wanted:
                self.iptables("-A", chain, side, other.address, "-j", "DROP")

    def lose(self, part, other=None):
        """Loses that part of all packets, both ways."""
        for chain, side in (("OUTPUT", "-d"), ("INPUT", "-s")):
            whose = (side, other.address) if other else ()
            self.iptables("-A", chain, "!", "-i" if chain == "INPUT" else "-o", "lo", *whose, "-m", "statistic",
                          "--mode", "random", "--probability", str(part), "-j", "DROP")

    def limit(self, bits_per_second, other=None):
        """What leaves the machine, or leaves it for that other one; 0 ends it."""
        self.do("tc", "qdisc", "del", "dev", "eth0", "root", check=False)
        if not bits_per_second:
            return
        narrow = ("rate", str(bits_per_second), "burst", "16kb")
        if other is None:
            self.do("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *narrow, "latency", "2s")
            return
        self.do("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1")
        self.do("tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", "rate", "10gbit")
        self.do("tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:2", "htb", *narrow)
        self.do("tc", "filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "dst",
                other.address, "flowid", "1:2")

    def heal(self):
        self.iptables("-F")
        self.limit(0)

    def kill_connections(self, other):
        """Resets those between the two; answers how many."""
        return len(self.do("ss", "-K", "-H", "-t", "dst", other.address).splitlines())

    def knock(self, other, port, seconds=0.3):
        """Tries to connect to it; answers whether that worked."""
        with self.inside():
            try:
                socket.create_connection((other.address, port), seconds).close()
                return True
            except OSError:
                return False

    def sent_bytes(self):
        row = self.do("ip", "-s", "-o", "link", "show", "eth0")
        return int(re.search(r"TX: .*?\\ *(\d+)", row)[1])

    def close(self):
        os.close(self.descriptor)


class Network:
    """The machines of these names, all on one bridge."""

    def __init__(self, names):
        self.switch = Machine("switch")
        self.machines = {}
        with self.switch.inside():
            self.switch.run("ip", "link", "add", "bridge0", "type", "bridge")
            self.switch.run("ip", "link", "set", "bridge0", "up")
        for number, name in enumerate(names, 10):
            self._join(Machine(name, f"{NETWORK}.{number}"), f"port{number}")

    def _join(self, machine, port):
        self.machines[machine.name] = machine
        with self.switch.inside():
            self.switch.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns",
                            f"/proc/{os.getpid()}/fd/{machine.descriptor}")
            self.switch.run("ip", "link", "set", port, "master", "bridge0", "up")
        machine.do("ip", "address", "add", f"{machine.address}/24", "dev", "eth0")
        machine.do("ip", "link", "set", "eth0", "up")

    def __getitem__(self, name):
        return self.machines[name]

    def heal(self):
        for machine in self.machines.values():
            machine.heal()

    def close(self):
        for machine in (*self.machines.values(), self.switch):
            machine.close()


def end_loop(loop):
    """Ends a loop that has stopped, with what runs on it and the connections that it holds."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    # Sockets are closed by a turn of the loop.
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()


class Tunnel:
    """On each of the machines 127.0.0.1:port leads to that port of the machine that the test was started on: an S3 that
    no fault of the network touches."""

    def __init__(self, machines, port):
        self.port, self.loop = port, asyncio.new_event_loop()
        sockets = []
        for machine in machines:
            with machine.inside():
                sockets.append(socket.create_server(("127.0.0.1", port)))
        self.thread = threading.Thread(target=self._run, args=(sockets,))
        self.thread.start()

    def _run(self, sockets):
        asyncio.set_event_loop(self.loop)
        for listening in sockets:
            self.loop.run_until_complete(asyncio.start_server(self._serve, sock=listening))
        self.loop.run_forever()
        end_loop(self.loop)
        for listening in sockets:
            listening.close()

    async def _serve(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        except OSError:
            pass  # one end is gone, and the other hears of it here
        finally:
            for end in (writer, far_writer):
                end.close()

    @staticmethod
    async def _carry(reader, writer):
        while part := await reader.read(1 << 18):
            writer.write(part)
            await writer.drain()
        writer.write_eof()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


def skip_if_missing():
    """Leaves with SKIPPED and a sentence where namespaces, or rules in them, cannot be made."""
    for program in ("ip", "tc", "ss", "iptables"):
        if shutil.which(program) is None:
            sys.exit(_skip(f"{program} is not installed"))
    try:
        network = Network(("probe",))
    except OSError as error:
        sys.exit(_skip(f"network namespaces cannot be made here: {error}"))
    try:
        network["probe"].lose(0.5)
        network["probe"].limit(1_000_000)
    except OSError as error:
        sys.exit(_skip(f"this kernel lacks what makes a network fail: {error}"))
    finally:
        network.close()


def _skip(why):
    print(f"skipped: {why}", file=sys.stderr)
    return SKIPPED
