"""The other file systems over S3 that ops/bench compares with, where this machine has them: with a cache of their own on the
local disk, and what their own documents recommend for data that does not change.

s3fs and rclone come with Debian. mount-s3, juicefs and geesefs do not; docs/PERFORMANCE.md says where those came from that it
has figures of. Where one does not mount, its rows are left out and the run says why."""

import contextlib
import os
import secrets
import shutil
import subprocess
import time

from bench_subjects import Subject
from local_cluster import ClusterError, Daemon, drop_page_cache, without_settings

MOUNT_SECONDS = 30
COPY_SECONDS = 3600
MIB = 1 << 20


class Peer:
    """One mount of another file system over the bucket. `cache_bytes`: the bound of its cache; None where it may hold all
    of the data."""

    def __init__(self, folder, name, bucket, rgw, source, cache_bytes=None):
        self.name, self.bucket, self.rgw, self.source, self.cache_bytes = name, bucket, rgw, source, cache_bytes
        self.folder = folder / f"{name}-{bucket}"
        self.root, self.cache = self.folder / "mnt", self.folder / "cache"
        # Where it has its data: JuiceFS keeps them in a format of its own.
        self.data_bucket = f"{bucket}-{name}" if name in PREPARE else bucket
        self.volume = None  # there, of its copy of the data
        self.daemon = None

    def start(self):
        for part in (self.root, self.cache):
            part.mkdir(parents=True)
        if self.name in PREPARE:
            PREPARE[self.name](self)
        self.mount(COMMANDS[self.name](self))
        return self

    def mount(self, command):
        self.daemon = Daemon(self.name, command, self._environment(), self.folder / "log").start(wait=False)
        deadline = time.monotonic() + MOUNT_SECONDS
        while not os.path.ismount(self.root):
            if not self.daemon.running() or time.monotonic() > deadline:
                raise ClusterError(f"{self.name} did not mount; {self.daemon.tail()}")
            time.sleep(0.05)

    def start_empty(self, s3):
        """Anew, with nothing in its cache, and over this way to S3."""
        self.unmount()
        shutil.rmtree(self.cache, ignore_errors=True)
        self.cache.mkdir()
        self.rgw = s3
        self.mount(COMMANDS[self.name](self))

    def subjects(self):
        common = {"root": self.root, "daemons": lambda: [self.daemon], "slow": True}
        return [
            Subject(f"{self.name}_warm_dropped", f"{self.name}, its cache warm, page cache dropped",
                    arrange=drop_page_cache, **common),
            Subject(f"{self.name}_warm_allowed", f"{self.name}, its cache warm, page cache warm", warm=True,
                    peer="s3fs_warm_allowed", **common),
        ]

    def _environment(self):
        if self.name == "rclone":
            return self.rgw.rclone_env()
        return {**without_settings(os.environ), **({} if self.name == "s3fs" else self.rgw.env)}

    def run(self, *command):
        result = subprocess.run([str(word) for word in command], env=self._environment(), capture_output=True, text=True,
                                timeout=COPY_SECONDS, check=False)
        if result.returncode != 0:
            raise ClusterError(f"{command[0]} {command[1]} ended with {result.returncode}: {result.stderr.strip()[-500:]}")

    def unmount(self):
        if self.daemon:
            self.daemon.stop()
        # What a killed daemon leaves is a mount that answers ENOTCONN.
        subprocess.run(["umount", "-l", self.root], check=False, stderr=subprocess.DEVNULL)

    def stop(self):
        self.unmount()
        if self.volume:
            with contextlib.suppress(ClusterError):
                self.rgw.remove(self.data_bucket, f"{self.volume}/")
        shutil.rmtree(self.folder, ignore_errors=True)


def _s3fs(peer):
    """s3fs(1): the local cache, a stat cache larger than the data set that does not expire meanwhile, kernel caches kept."""
    keys = peer.folder / "passwd"
    keys.touch(mode=0o600)
    keys.write_text(f"{peer.rgw.env['AWS_ACCESS_KEY_ID']}:{peer.rgw.env['AWS_SECRET_ACCESS_KEY']}\n")
    options = {"passwd_file": keys, "url": peer.rgw.env["AWS_ENDPOINT_URL"], "use_cache": peer.cache,
               "use_path_request_style": None, "ro": None, "kernel_cache": None, "attr_timeout": 86400,
               "entry_timeout": 86400, "stat_cache_expire": 86400, "max_stat_cache_size": 1_000_000,
               "enable_noobj_cache": None, "multireq_max": 64, "logfile": peer.folder / "log"}
    words = [word if value is None else f"{word}={value}" for word, value in options.items()]
    return ["s3fs", peer.bucket, peer.root, "-f", "-o", ",".join(words)]


def _rclone(peer):
    """The manual of `rclone mount`, sections Fingerprinting, VFS Performance and Attribute caching, for data that
    nothing else changes. A bound of its cache is looked at as often as it is told to."""
    bound = [] if peer.cache_bytes is None else ["--vfs-cache-max-size", f"{peer.cache_bytes}B", "--vfs-cache-poll-interval",
                                                 "1s"]
    return ["rclone", "mount", f":s3:{peer.bucket}", peer.root, "--read-only", "--cache-dir", peer.cache,
            "--vfs-cache-mode", "full", "--vfs-cache-max-age", "24h", "--vfs-fast-fingerprint", "--no-modtime",
            "--no-checksum", "--dir-cache-time", "24h", "--attr-timeout", "24h", "--poll-interval", "0", *bound]


def _mount_s3(peer):
    """Mountpoint's CONFIGURATION.md, "Caching configuration" and "Endpoints": a cache on disk, metadata for ever."""
    bound = [] if peer.cache_bytes is None else ["--max-cache-size", max(1, peer.cache_bytes // MIB)]
    return ["mount-s3", peer.bucket, peer.root, "--foreground", "--read-only", "--force-path-style", "--endpoint-url",
            peer.rgw.env["AWS_ENDPOINT_URL"], "--region", "us-east-1", "--cache", peer.cache, "--metadata-ttl", "indefinite",
            *bound]


def _geesefs(peer):
    """GeeseFS's README, "Local cache" and `geesefs --help`: its cache is its memory, as large as the data, with the disk
    behind it; listings do not expire."""
    megabytes = 100_000 if peer.cache_bytes is None else max(1, peer.cache_bytes // MIB)
    return ["geesefs", "-f", "--endpoint", peer.rgw.env["AWS_ENDPOINT_URL"], "--region", "us-east-1", "--memory-limit",
            megabytes, "--entry-limit", "10000000", "--stat-cache-ttl", "24h", "-o", "ro", peer.bucket, peer.root]


def _juicefs_volume(peer):
    return f"sqlite3://{peer.folder / 'meta.db'}"


def _juicefs_bucket(peer):
    return f"{peer.rgw.env['AWS_ENDPOINT_URL']}/{peer.data_bucket}"


def _juicefs_mount(peer, *words):
    bound = [] if peer.cache_bytes is None else ["--cache-size", max(1, peer.cache_bytes // MIB)]
    return ["juicefs", "mount", "--no-usage-report", "--metrics", "127.0.0.1:0", "--backup-meta", "0", "--cache-dir",
            peer.cache, "--bucket", _juicefs_bucket(peer), *bound, *words, _juicefs_volume(peer), peer.root]


def _juicefs_copy(peer):
    """The files are copied into a volume before anything is measured, and what that left in its cache goes away."""
    peer.rgw.make_bucket(peer.data_bucket)
    peer.volume = f"bench-{secrets.token_hex(4)}"  # another one's data may be in the bucket already
    peer.run("juicefs", "format", "--storage", "s3", "--bucket", _juicefs_bucket(peer), "--access-key",
             peer.rgw.env["AWS_ACCESS_KEY_ID"], "--secret-key", peer.rgw.env["AWS_SECRET_ACCESS_KEY"],
             _juicefs_volume(peer), peer.volume)
    peer.mount(_juicefs_mount(peer))
    peer.run("cp", "-r", f"{peer.source}/.", peer.root)
    peer.unmount()
    shutil.rmtree(peer.cache)
    peer.cache.mkdir()


def _juicefs(peer):
    """Its "Metadata cache in kernel" and "Data cache", for data that nothing else changes."""
    return _juicefs_mount(peer, "--read-only", "--no-bgjob", "--attr-cache", 86400, "--entry-cache", 86400,
                          "--dir-entry-cache", 86400, "--open-cache", 86400)


COMMANDS = {"s3fs": _s3fs, "rclone": _rclone, "mount-s3": _mount_s3, "juicefs": _juicefs, "geesefs": _geesefs}
PREPARE = {"juicefs": _juicefs_copy}
DEBIAN = ("s3fs", "rclone")   # the others are not missed where they are not installed
UNBOUNDED = ("s3fs",)         # no option bounds its cache but by what the disk has left


def installed(skipped):
    """The names of those that this machine has; which of Debian's it lacks goes to `skipped`."""
    found = []
    for name in COMMANDS:
        if shutil.which(name):
            found.append(name)
        elif name in DEBIAN:
            skipped[name] = f"{name} is not installed: skipped"
    return found


def start(names, folder, bucket, rgw, source, skipped):
    """Those of `names` that mount, each with its subjects; why the others are left out goes to `skipped`."""
    with contextlib.ExitStack() as started:
        found = []
        for name in names:
            peer = Peer(folder, name, bucket, rgw, source)
            started.callback(peer.stop)
            try:
                found.append((peer, peer.start().subjects()))
            except ClusterError as error:
                skipped[name] = f"{name} is skipped: {error}"
                peer.stop()
        started.pop_all()
        return found
