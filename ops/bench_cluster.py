"""The cluster that ops/bench measures, with certificates and TLS or without; and what may be left out of it, to see what it
costs."""

import json
import pathlib
import subprocess
import tempfile

from local_cluster import Cluster, ClusterError, remove

MEMORY_DISK = "/dev/shm"
OVER_NETWORK = ("--local-reads", "network")
WITHOUT = {
    "s3": "no S3: everything is preloaded before epoch 1",
    "disk": "no disk: the caches are in memory (tmpfs)",
    "network": "no network: every mount reads the nodes of this machine as such, out of their files",
    "fuse": "no FUSE, in rows of their own: the library that the mount is made of reads, and no kernel asks for it",
}
_STORE = "it measures a node's store, which has no layers above it"
_EVICTION = "it counts hits of a node that reads a made-up S3 with a clock of its own"
_BANDWIDTH = "it measures what bounded nodes send to mounts out of their caches"
_PRELOAD = "it measures what goes from S3 through a node to its disk"
_LOADERS = "the loaders of training jobs read files, and there are none without the mount"
# Where a layer cannot be left out, and why; every other part takes all of WITHOUT.
MEANINGLESS = {
    ("cold", "s3"): "a first epoch is what is read out of S3",
    ("epochs", "fuse"): _LOADERS,
    ("scale", "fuse"): _LOADERS,
    ("namespace", "s3"): "listing S3 is what it measures",
    ("namespace", "network"): "it reads no node",
    **{("store", layer): _STORE for layer in WITHOUT},
    **{("eviction", layer): _EVICTION for layer in WITHOUT},
    **{("bandwidth", layer): _BANDWIDTH for layer in WITHOUT},
    **{("preload", layer): _PRELOAD for layer in WITHOUT},
}


def memory_folder():
    """A folder of the disk that --without disk uses."""
    return pathlib.Path(tempfile.mkdtemp(prefix="forebay-bench-", dir=MEMORY_DISK))


class BenchCluster(Cluster):
    """`without`: names of WITHOUT. With `tls` the cluster is made by `forebay init` and `forebay join`."""

    def __init__(self, folder, programs, s3_environment, without=(), tls=False):
        super().__init__(folder, programs, s3_environment)
        if tls and "network" in without:
            raise ClusterError("what goes through a UNIX socket is not encrypted: there is no TLS without network")
        self.without, self.tls, self.tokens = without, tls, {}
        self.memory = memory_folder() if "disk" in without else None

    def start_coordinator(self, *options, wait=True):
        if self.tls:
            # The address in the certificates is not looked at on the way to a loopback port.
            self._forebay(self.folder / "trust", "init", "--advertise", "127.0.0.1:7440")
        started = super().start_coordinator(*options, wait=wait)
        if self.tls:
            self._join("client", self.folder / "trust", "bench")
        return started

    def start_node(self, name, size="2GiB", *options, wait=True, directories=None):
        if self.memory:
            directories = [(self.memory / name, size)]
        if self.tls:
            trust = self.folder / f"{name}.trust"
            self._join("node", trust, name)
            options = (*options, "--trust-dir", trust)
        return super().start_node(name, size, *options, wait=wait, directories=directories)

    def mount(self, source, name, *options, wait=True):
        """Nodes are reached over TCP, as those of other machines, where `options` do not say how."""
        if "--local-reads" not in options and "network" not in self.without:
            options = (*options, *OVER_NETWORK)
        return super().mount(source, name, *options, wait=wait)

    def reading_without_fuse(self, link, *options):
        """What read_blocks takes to read a link of this cluster, and its environment; as mount() has it."""
        if "--local-reads" not in options and "network" in self.without:
            options = (*options, "--local-reads", "files")
        return (link, "--coordinator", self.address, "--state-dir", self.folder / "read_blocks.state", *options), self.client_env

    def _join(self, role, trust, name):
        if role not in self.tokens:
            made = json.loads(self._forebay(self.folder / "trust", "--coordinator", self.address, "-o", "json", "token", "create",
                                            "--role", role, "--uses", "100"))
            self.tokens[role] = made["join"].split(" --token ")[1]
        self._forebay(trust, "join", self.address, "--token", self.tokens[role], "--role", role, "--id", name)

    def _forebay(self, trust, *words):
        result = subprocess.run([str(word) for word in (self.programs / "forebay", *words)], stdin=subprocess.DEVNULL,
                                env={**self.client_env, "FOREBAY_TRUST_DIR": str(trust)}, capture_output=True, text=True,
                                timeout=60, check=False)
        if result.returncode != 0:
            raise ClusterError(f"forebay {words[0]} ended with {result.returncode}: {result.stderr.strip()}")
        return result.stdout

    def stop(self):
        codes = super().stop()
        if self.memory:
            remove(self.memory)
            self.memory = None
        return codes
