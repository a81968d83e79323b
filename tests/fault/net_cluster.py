"""A cluster whose programs are on machines of their own (netns.py): each has its address, its certificates and its
folders; everything between them goes over TLS. S3 is reached past this network."""

import json
import pathlib
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from e2e import Cluster, Daemon, eventually  # noqa: E402
from netns import Network, Tunnel  # noqa: E402
from mount_state import state_of  # noqa: E402
from verified_load import NODE_STALL_SECONDS, VerifiedTest, fault_made, held  # noqa: E402

PORT = 7440
NODES = ("n1", "n2", "n3")
FILES = 400  # of one block each
# A machine that builds beside this test is given room.
LONGEST_SECONDS = held(NODE_STALL_SECONDS, 12)


class MachineDaemon(Daemon):
    def __init__(self, machine, *words):
        super().__init__(*words)
        self.machine = machine

    def start(self, wait=True):
        with self.machine.inside():
            return super().start(wait)

    def metrics(self):
        with self.machine.inside():
            return super().metrics()


class NetCluster(Cluster):
    """Machines: c the coordinator and its administrator, n1 … the nodes, m1 and m2 with a mount each."""

    ADMIN = "c"
    COORDINATORS = ("c",)
    OTHERS = ("m1", "m2")  # what else there is, without a way to S3

    def __init__(self, folder, programs, s3_environment):
        super().__init__(folder, programs, s3_environment)
        servers = (*self.COORDINATORS, *NODES)
        self.network = Network((*servers, *self.OTHERS))
        port = urllib.parse.urlsplit(s3_environment["AWS_ENDPOINT_URL"]).port
        self.tunnel = Tunnel([self.network[name] for name in servers], port)
        self.tokens = {}

    def env_of(self, machine, server=True):
        """As if nothing of the file system were shared."""
        own = {"FOREBAY_RUNTIME_DIR": str(self.folder / f"{machine}.run"),
               "FOREBAY_TRUST_DIR": str(self.folder / f"{machine}.trust")}
        (self.folder / f"{machine}.run").mkdir(mode=0o700, exist_ok=True)
        return {**(self.server_env if server else self.client_env), **own}

    def forebay(self, machine, *words, check=True, timeout=60, coordinator=None):
        """`forebay WORD…` on that machine."""
        with self.network[machine].inside():
            return super().cli(*words, check=check, timeout=timeout, coordinator=coordinator,
                               env=self.env_of(machine, server=False))

    def cli(self, *words, check=True, timeout=300, coordinator=None):
        return self.forebay(self.ADMIN, *words, check=check, timeout=timeout, coordinator=coordinator)

    @property
    def address(self):
        return f"{self.network['c'].address}:{PORT}"

    @property
    def join_address(self):
        """Of the coordinator that new members ask."""
        return self.address

    def join(self, machine, role, name):
        token = self.tokens.get(role) or json.loads(self.cli(
            "-o", "json", "token", "create", "--role", role, "--uses", "100").stdout)["join"].split(" --token ")[1]
        self.tokens[role] = token
        self.forebay(machine, "join", self.join_address, "--token", token, "--role", role, "--id", name)

    def daemon(self, machine, name, program, *words, server=True):
        return MachineDaemon(self.network[machine], name, [self.programs / program, *words,
                                                           "--metrics-listen", "127.0.0.1:0"],
                             self.env_of(machine, server), self.folder / f"{name}.log")

    def start_coordinator(self, *options, wait=True):
        if self.coordinator is None:
            self.cli("init", "--advertise", self.address)
        self.coordinator = self.daemon("c", "coordinator", "forebay-coordinator", "--state-dir",
                                       self.folder / "coordinator", "--listen", self.address, *options)
        return self.coordinator.start(wait)

    def start_node(self, name, size="1GiB", *options, wait=True, directories=None):
        if name not in self.nodes:
            self.join(name, "node", name)
        self.nodes[name] = self.daemon(
            name, name, "forebay-node", "--node-id", name, "--cache-dir", f"{self.folder / name}={size}",
            "--coordinator", self.address, "--state-dir", self.folder / "nodes" / name, "--listen",
            f"{self.network[name].address}:{PORT + 1}", *options)
        self.nodes[name].start(wait)
        if wait:
            self.be_elsewhere(name)
        return self.nodes[name]

    def start_nodes(self, names, *words):
        """At once, each where it has joined."""
        for name in names:
            self.start_node(name, *words, wait=False)
        for name in names:
            self.nodes[name].wait_ready()
            self.be_elsewhere(name)

    def be_elsewhere(self, name):
        """The machine's name is all of theirs; without its socket the node is another machine's to every mount."""
        (self.folder / f"{name}.run" / f"node-{name}.sock").unlink()

    def mount(self, source, name, *options, wait=True):
        """`name` is its machine, too."""
        path = self.folder / name
        if not path.exists():
            path.mkdir()
            self.join(name, "client", name)
        self.mounts[name] = self.daemon(
            name, name, "forebay-mount", source, path, "--foreground", "--coordinator", self.address, "--state-dir",
            self.folder / f"{name}.state", "--job-id", name, *options, server=False)
        self.mounts[name].start(wait)
        return path

    def stop(self):
        self.network.heal()
        codes = super().stop()
        self.tunnel.close()
        self.network.close()
        return codes


class Verbs(threading.Thread):
    """Asks the coordinator the same again and again. `good`: the exit codes of an answer."""

    def __init__(self, cluster, *words, good=(0,)):
        super().__init__()
        self.cluster, self.words, self.good = cluster, words or ("links",), good
        self.ended, self.done, self.failed, self.longest_seconds = threading.Event(), 0, [], 0.0
        self.start()

    def run(self):
        while not self.ended.wait(0.1):
            begin = time.monotonic()
            result = self.cluster.cli(*self.words, check=False)
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - begin)
            self.done += 1
            if result.returncode not in self.good:
                self.failed.append(result.stderr)

    def end(self):
        self.ended.set()
        self.join()


class NetFaultTest(VerifiedTest):
    """A cluster for each test, with a bucket of verified_reader's files, and what its readers saw."""

    CLUSTER = NetCluster
    FILES = FILES
    PATIENCE_SECONDS = 120

    def setUp(self):
        super().setUp()
        self.network = self.cluster.network

    def begin(self, *mount_options):
        """Everything runs, and every block is in a cache, fetched once."""
        self.start()
        self.link("data", "", "--no-background-fill")
        mount = self.cluster.mount("data", "m1", *mount_options)
        self.finish(self.load(mount, passes=1, readers=2), "cold epochs of two readers", rate=0)
        self.assertEqual(self.fetched(), FILES)
        # More where a node was so slow that others took copies.
        eventually(lambda: self.stored() >= FILES, "every block is stored")
        return mount

    def stored(self):
        """Blocks that all nodes hold, asked of each: the coordinator answers with their next heartbeat, a second later."""
        return sum(self.metric(node, "forebay_index_entries") for node in self.cluster.nodes.values())

    def finish(self, load, what, rate=None, stall=NODE_STALL_SECONDS):
        """None waited much longer than the promise, either, where there is one."""
        total = super().finish(load, what, rate, stall)
        self.assertGreater(total["reads"], 0)
        if stall is not None:
            self.assertLessEqual(total["longest_seconds"], LONGEST_SECONDS)
        return total

    def stats(self):
        return self.cluster.json("stats", "--nodes")

    def states(self):
        return {node["id"]: node["state"] for node in self.stats()["nodes"]}

    def state(self, name):
        return self.states()[name]

    def wait_for_suspect(self, name):
        """Silent for long enough, and nobody else is."""
        eventually(lambda: self.in_state("suspect") == 1, f"the coordinator suspects {name}")
        self.assertEqual(self.states(), {other: "suspect" if other == name else "up" for other in self.cluster.nodes})

    def answered(self, name):
        return self.metric(self.cluster.nodes[name], "forebay_read_duration_seconds_count")

    def switches(self, mount):
        return json.loads((mount / ".forebay" / "stats").read_text())["owner_switches"]

    def wait_for_switch(self, mount, before):
        fault_made(lambda: self.switches(mount) > before, "a read goes to another owner")

    def dropped(self, *machines):
        """Packets lost on these machines so far; the rules that count them go with heal()."""
        return sum(self.network[name].dropped() for name in machines)

    def check_dropped(self, *machines, least=1):
        """Each of them has lost packets."""
        for name in machines:
            lost = self.dropped(name)
            self.void_unless(lost >= least, f"{lost} packets were lost at {name}: the fault did not happen")

    def check_stopped(self, daemon):
        self.void_unless(state_of(daemon.pid) == "T", f"{daemon.name} was not stopped all the while: the fault did not happen")

    def keep_reading(self, names=NODES):
        """Comes back after so many reads from these nodes as are claimed for some seconds: a short run is mostly beginning."""
        count = lambda: sum(self.answered(name) for name in names)  # noqa: E731
        before = count()
        eventually(lambda: count() > before + 4 * self.READS_PER_SECOND, "readers read on", 120)

    def wait_for_return(self, name, since=None):
        """`since`: when its fault ended, where that is not now."""
        begun, before = since or time.monotonic(), self.answered(name)
        eventually(lambda: self.answered(name) > before + 50, f"{name} is read from again")
        print(f"\n    {name} is read from again {time.monotonic() - begun:.1f} s after its fault at the latest", file=sys.stderr)


__all__ = ["FILES", "LONGEST_SECONDS", "NODES", "PORT", "MachineDaemon", "NetCluster", "NetFaultTest", "Verbs",
           "eventually", "fault_made", "held", "state_of"]
