"""What ops/bench compares, each brought into the state in which it is read: the local file system and Forebay. The peers
are in bench_peers.py."""

import dataclasses
import json
import os
import pathlib
import time
import typing

from local_cluster import ClusterError, drop_page_cache, without_settings

# Nobody waits for a FORGET; STATFS is what a monitor asks of every mount.
NOT_OF_READING = ("forget", "statfs")
TICKS = os.sysconf("SC_CLK_TCK")


def nothing():
    """The arrangement of a subject that is read as it is."""


@dataclasses.dataclass
class Subject:
    key: str            # its name in the JSON
    title: str          # and in the tables
    root: pathlib.Path  # the folder with the files
    arrange: typing.Callable = nothing   # before each read that is measured
    warm: bool = False                   # it is read once, unmeasured, before a round's measured reads
    daemons: typing.Callable = list      # its processes: their CPU time counts beside the reader's
    mount: typing.Callable | None = None  # Forebay's mount, which counts the kernel's messages
    cold: bool = False   # its reads come from S3
    forebay: bool = False
    # Without FUSE: the words that read_blocks takes behind the list and the link, and its environment.
    direct: typing.Callable | None = None
    slow: bool = False   # it is read with the greatest number of readers only, or a run would take too long
    peer: str = "s3fs_warm_dropped"      # what it is compared with
    words: tuple = ()    # for read_files

    def reading(self, programs, listed):
        """The command that reads the files of a list out of it, and its environment."""
        if self.direct:
            words, environment = self.direct()
            return [programs / "read_blocks", listed, *words], environment
        return [programs / "read_files", listed, self.root, *self.words], without_settings(os.environ)

    def walk(self):
        """As a training script does before it reads."""
        for _ in [] if self.direct else os.walk(self.root):
            pass

    def cpu_seconds(self):
        return sum(cpu_seconds(daemon.pid) for daemon in self.daemons())

    def fuse_ops(self):
        return self.mount().fuse_ops() if self.mount else {}


def cpu_seconds(pid):
    """User and system time so far of all its threads, and of the processes that it started: a mount's supervisor works
    little itself."""
    try:
        # The name, in brackets, may hold spaces. Children that have ended count here.
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = [int(child) for thread in os.listdir(f"/proc/{pid}/task")
                    for child in pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
    except OSError:
        return 0.0  # ended a moment ago: its parent has its time
    return sum(int(field) for field in fields[11:15]) / TICKS + sum(map(cpu_seconds, children))


def machine_cpu_seconds():
    """What all CPUs have worked so far, for whomever; what the hypervisor took is lost to us as well."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def read_like_pil(path):
    """As PIL's Image.open and load do: the first bytes say which format it is, then all from the front in pieces of 64 KiB."""
    with open(path, "rb") as file:
        file.read(16)
        file.seek(0)
        parts = []
        while part := file.read(65_536):
            parts.append(part)
    return b"".join(parts)


def native(source):
    return [
        Subject("native_hot", "native, page cache warm", source, warm=True, peer="s3fs_warm_allowed"),
        Subject("native_cold", "native, page cache dropped", source, drop_page_cache),
    ]


SMALL_MODE = ("--mode", "small")
LARGE_MODE = ("--mode", "large")
PAGE_ALIGNED = ("--page-aligned",)
BY_SOCKET = ("--local-reads", "socket")
FROM_FILES = ("--local-reads", "files")
NO_FUSE = "the same, without FUSE"


class Forebay:
    """One link of a cluster: a mount that stays, and others that are made anew for each read. `rows` says which."""

    def __init__(self, cluster, link, rows):
        self.cluster, self.link, self.rows = cluster, link, rows
        self.stays, self.fresh = f"{link}-mnt", []

    def start(self, source):
        self.cluster.cli("link", source, "--as", self.link)
        self.cluster.mount(self.link, self.stays, *SMALL_MODE)
        if self.cluster.tls:
            found = [self._dropped("forebay_tls_dropped", "forebay over TLS, page cache dropped", slow=True),
                     self._new_mount("forebay_tls_new_mount", "forebay over TLS, new mount, warm nodes", slow=True),
                     *self._no_fuse("forebay_tls_no_fuse", NO_FUSE, slow=True)]
            if "large" in self.rows:
                found.append(self._new_mount("forebay_tls_large", "the same, large mode", *LARGE_MODE, slow=True))
            return found
        found = [
            self._subject("forebay_epoch1", "forebay, epoch 1, " + (
                "preloaded" if "s3" in self.cluster.without else "nothing cached"), self.stays, self._empty,
                cold=True, slow=True),
            self._dropped("forebay_dropped", "forebay, epoch 2, page cache dropped"),
            self._new_mount("forebay_new_mount", "forebay, new mount, nodes' memory warm"),
            *self._no_fuse("forebay_no_fuse", NO_FUSE),
        ]
        if "local" in self.rows:
            found += [self._new_mount("forebay_local", "the same, nodes on this machine", *SMALL_MODE, *FROM_FILES),
                      self._read_before("forebay_local_again", "the same, read before by this mount")]
        found += self._no_fuse("forebay_local_no_fuse", "nodes on this machine, without FUSE", *FROM_FILES)
        if "socket" in self.rows:
            found.append(self._new_mount("forebay_by_socket", "the same, bytes over their sockets", *SMALL_MODE, *BY_SOCKET))
        if "large" in self.rows:
            found += [
                self._new_mount("forebay_large", "forebay, large mode, new mount", *LARGE_MODE),
                self._new_mount("forebay_large_aligned", "the same, buffers that begin at a page", *LARGE_MODE, words=PAGE_ALIGNED),
                self._new_mount("forebay_large_local", "large mode, nodes on this machine", *LARGE_MODE, *FROM_FILES),
                self._new_mount("forebay_large_local_aligned", "the same, buffers that begin at a page", *LARGE_MODE, *FROM_FILES,
                                words=PAGE_ALIGNED),
                *self._local_copies("forebay_local_copy", "forebay, large mode, local copies")]
        return found + [self._subject("forebay_hot", "forebay, page cache warm", self.stays, nothing, warm=True,
                                      peer="s3fs_warm_allowed")]

    def _dropped(self, key, title, **more):
        return self._subject(key, title, self.stays, drop_page_cache, **more)

    def _subject(self, key, title, mount, arrange, **more):
        cluster = self.cluster
        return Subject(key, title, cluster.folder / mount, arrange, mount=lambda: cluster.mounts[mount], daemons=lambda: [
            cluster.mounts[mount], cluster.coordinator, *cluster.nodes.values()], forebay=True, **more)

    def _no_fuse(self, key, title, *options, **more):
        """The link read by the library that the mount is made of, which is what --without fuse asks for."""
        cluster = self.cluster
        if "fuse" not in cluster.without:
            return []
        return [Subject(key, title, f"{self.link} without FUSE", warm=True, forebay=True, peer="s3fs_warm_allowed",
                        direct=lambda: cluster.reading_without_fuse(self.link, *options),
                        daemons=lambda: [cluster.coordinator, *cluster.nodes.values()], **more)]

    def _empty(self):
        self.cluster.cli("evict", self.link, "--yes", "--force")
        if "s3" in self.cluster.without:
            self.cluster.cli("preload", self.link, timeout=3600)
        drop_page_cache()

    def _new_mount(self, key, title, *options, **more):
        """A mount that is made anew before each read: the kernel remembers nothing."""
        name = f"{self.link}-{key}"
        self.fresh.append(name)

        def mount_anew():
            if name in self.cluster.mounts:
                self.cluster.unmount(name)
            self.cluster.mount(self.link, name, *(options or SMALL_MODE))

        return self._subject(key, title, name, mount_anew, warm=True, peer="s3fs_warm_allowed", **more)

    def _read_before(self, key, title):
        """A mount that stays and knows where the blocks lie; the kernel alone has dropped what it had of the mount's files."""
        name = f"{self.link}-{key}"
        mount = self.cluster.mount(self.link, name, *SMALL_MODE, *FROM_FILES)
        self.fresh.append(name)

        def drop_pages():
            for folder, _, files in os.walk(mount):
                for file in files:
                    opened = os.open(os.path.join(folder, file), os.O_RDONLY)
                    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(opened)

        return self._subject(key, title, name, drop_pages, warm=True, peer="s3fs_warm_allowed")

    def _local_copies(self, key, title):
        """A mount that stays, all files of which have copies on this disk; nothing where the kernel cannot read them."""
        name = f"{self.link}-{key}"
        mount = self.cluster.mount(self.link, name, *LARGE_MODE, "--local-copy", self.cluster.folder / f"{name}.copies")
        config = json.loads((mount / ".forebay/config").read_text())
        if not config["local_copy"]["active"]:
            self.cluster.unmount(name)
            return []
        self.fresh.append(name)

        def copy_all():
            deadline = time.monotonic() + 600
            while json.loads((mount / ".forebay/stats").read_text())["local_copies"]["folder"]["copies"] < config["objects"]:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{name} has not copied its files")
                # Who opens a file has it copied.
                for folder, _, files in os.walk(mount):
                    for file in files:
                        os.close(os.open(os.path.join(folder, file), os.O_RDONLY))
                time.sleep(0.2)

        return [self._subject(key, title, name, copy_all, warm=True, peer="s3fs_warm_allowed")]

    def read_as_pil(self, names):
        """What the kernel asks a new mount for when these files are read as PIL reads images."""
        name = f"{self.link}-pil"
        root = self.cluster.mount(self.link, name, *SMALL_MODE)
        try:
            for _ in os.walk(root):
                pass
            before = self.cluster.mounts[name].fuse_ops()
            for file in names:
                read_like_pil(root / file)
            return {"files": len(names), "reads": self.cluster.mounts[name].fuse_ops()["read"] - before.get("read", 0)}
        finally:
            self.cluster.unmount(name)

    def settle(self):
        """Until the nodes have fetched the rest of the blocks whose ranges readers have: the GETs of that are those of the reads."""
        deadline = time.monotonic() + 60
        while any(node.metrics()["forebay_fills_in_flight", ""] > 0 for node in self.cluster.nodes.values()):
            if time.monotonic() > deadline:
                raise ClusterError(f"{self.link}: the nodes still fetch blocks a minute after the last read")
            time.sleep(0.02)

    def gets(self):
        """GETs that S3 answered, as the nodes count them."""
        return sum(int(value) for node in self.cluster.nodes.values()
                   for (name, labels), value in node.metrics().items()
                   if name == "forebay_s3_requests_total" and 'op="GET"' in labels and 'code="ok"' in labels)

    def stop(self):
        for name in (self.stays, *self.fresh):
            if name in self.cluster.mounts:
                self.cluster.unmount(name)
        # The next one shall find room in the caches.
        self.cluster.cli("unlink", self.link, "--evict", "--force", check=False)
