"""What ops/bench compares, each brought into the state in which it is read: the local file system, Forebay, and the
peers with the settings that their own documents recommend for data that does not change."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import time
import typing

from local_cluster import ClusterError, Daemon, drop_page_cache, without_settings

MOUNT_SECONDS = 30
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
    slow: bool = False   # it is read with the greatest number of readers only, or a run would take too long
    peer: str = "s3fs_warm_dropped"      # what it is compared with

    def cpu_seconds(self):
        return sum(cpu_seconds(daemon.pid) for daemon in self.daemons())

    def fuse_ops(self):
        return self.mount().fuse_ops() if self.mount else {}


def cpu_seconds(pid):
    """User and system time of all its threads so far."""
    # The name, in brackets, may hold spaces.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_cpu_seconds():
    """What all CPUs have worked so far, for whomever; what the hypervisor took is lost to us as well."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def native(source):
    return [
        Subject("native_hot", "native, page cache warm", source, warm=True, peer="s3fs_warm_allowed"),
        Subject("native_cold", "native, page cache dropped", source, drop_page_cache),
    ]


class Forebay:
    """One link of a cluster: a mount that stays, and one that is made anew for each read."""

    def __init__(self, cluster, link):
        self.cluster, self.link = cluster, link
        self.stays, self.fresh = f"{link}-mnt", f"{link}-new"

    def start(self):
        self.cluster.mount(self.link, self.stays)
        return [
            self._subject("forebay_epoch1", "forebay, epoch 1, nothing cached", self.stays, self._empty,
                          cold=True, slow=True),
            self._subject("forebay_dropped", "forebay, epoch 2, page cache dropped", self.stays, drop_page_cache),
            self._subject("forebay_new_mount", "forebay, new mount, nodes' memory warm", self.fresh, self._mount_anew,
                          warm=True, peer="s3fs_warm_allowed"),
            self._subject("forebay_hot", "forebay, page cache warm", self.stays, nothing, warm=True,
                          peer="s3fs_warm_allowed"),
        ]

    def _subject(self, key, title, mount, arrange, **more):
        cluster = self.cluster
        return Subject(key, title, cluster.folder / mount, arrange, mount=lambda: cluster.mounts[mount], daemons=lambda: [
            cluster.mounts[mount], cluster.coordinator, *cluster.nodes.values()], **more)

    def _empty(self):
        self.cluster.cli("evict", self.link, "--yes", "--force")
        drop_page_cache()

    def _mount_anew(self):
        if self.fresh in self.cluster.mounts:
            self.cluster.unmount(self.fresh)
        self.cluster.mount(self.link, self.fresh)

    def gets(self):
        """GETs that S3 answered, as the nodes count them."""
        return sum(int(value) for node in self.cluster.nodes.values()
                   for (name, labels), value in node.metrics().items()
                   if name == "forebay_s3_requests_total" and 'op="GET"' in labels and 'code="ok"' in labels)

    def stop(self):
        for name in (self.stays, self.fresh):
            if name in self.cluster.mounts:
                self.cluster.unmount(name)


class Peer:
    """Another file system over the same bucket, with a cache of its own on the local disk that holds all of it."""

    def __init__(self, folder, name, bucket, rgw):
        self.name, self.bucket, self.rgw = name, bucket, rgw
        self.folder = folder / f"{name}-{bucket}"
        self.root = self.folder / "mnt"
        self.daemon = None

    def start(self):
        for part in ("mnt", "cache"):
            (self.folder / part).mkdir(parents=True)
        log = self.folder / "log"
        self.daemon = Daemon(self.name, COMMANDS[self.name](self), self._environment(), log).start(wait=False)
        deadline = time.monotonic() + MOUNT_SECONDS
        while not os.path.ismount(self.root):
            if not self.daemon.running() or time.monotonic() > deadline:
                raise ClusterError(f"{self.name} did not mount; {self.daemon.tail()}")
            time.sleep(0.05)
        common = {"root": self.root, "daemons": lambda: [self.daemon], "slow": True}
        return [
            Subject(f"{self.name}_warm_dropped", f"{self.name}, its cache warm, page cache dropped",
                    arrange=drop_page_cache, **common),
            Subject(f"{self.name}_warm_allowed", f"{self.name}, its cache warm, page cache warm", warm=True,
                    peer="s3fs_warm_allowed", **common),
        ]

    def _environment(self):
        return self.rgw.rclone_env() if self.name == "rclone" else without_settings(os.environ)

    def stop(self):
        if self.daemon:
            self.daemon.stop()
        # What a killed daemon leaves is a mount that answers ENOTCONN.
        subprocess.run(["umount", "-l", self.root], check=False, stderr=subprocess.DEVNULL)


def _s3fs(peer):
    """s3fs(1): the local cache, a stat cache larger than the data set that does not expire meanwhile, kernel caches kept."""
    keys = peer.folder / "passwd"
    keys.touch(mode=0o600)
    keys.write_text(f"{peer.rgw.env['AWS_ACCESS_KEY_ID']}:{peer.rgw.env['AWS_SECRET_ACCESS_KEY']}\n")
    options = {"passwd_file": keys, "url": peer.rgw.env["AWS_ENDPOINT_URL"], "use_cache": peer.folder / "cache",
               "use_path_request_style": None, "ro": None, "kernel_cache": None, "attr_timeout": 86400,
               "entry_timeout": 86400, "stat_cache_expire": 86400, "max_stat_cache_size": 1_000_000,
               "enable_noobj_cache": None, "multireq_max": 64, "logfile": peer.folder / "log"}
    words = [word if value is None else f"{word}={value}" for word, value in options.items()]
    return ["s3fs", peer.bucket, peer.root, "-f", "-o", ",".join(words)]


def _rclone(peer):
    """The manual of `rclone mount`, sections Fingerprinting, VFS Performance and Attribute caching, for data that
    nothing else changes."""
    return ["rclone", "mount", f":s3:{peer.bucket}", peer.root, "--read-only", "--cache-dir", peer.folder / "cache",
            "--vfs-cache-mode", "full", "--vfs-cache-max-age", "24h", "--vfs-fast-fingerprint", "--no-modtime",
            "--no-checksum", "--dir-cache-time", "24h", "--attr-timeout", "24h", "--poll-interval", "0"]


COMMANDS = {"s3fs": _s3fs, "rclone": _rclone}


def peers(folder, bucket, rgw, skipped):
    """Those that this machine has and that mount; why the others are left out goes to `skipped`."""
    with contextlib.ExitStack() as started:
        found = []
        for name in COMMANDS:
            if not shutil.which(name):
                skipped[name] = f"{name} is not installed: skipped"
                continue
            peer = Peer(folder, name, bucket, rgw)
            started.callback(peer.stop)
            try:
                found.append((peer, peer.start()))
            except ClusterError as error:
                skipped[name] = f"{name} is skipped: {error}"
                peer.stop()
        started.pop_all()
        return found
