"""A Forebay cluster of real processes on this machine, in one folder, for ops/try, ops/bench and the end-to-end tests.

Everything listens on free ports of 127.0.0.1, keeps its files below the folder, and ends with the cluster: also when
the program that started it is killed."""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from free_port import free_port

READY_SECONDS = 60
STOP_SECONDS = 20
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class ClusterError(Exception):
    """Something did not start or end; says what, and where its log is."""


def without_settings(environment):
    """The environment without what would reach Forebay or an S3 client by accident."""
    return {name: value for name, value in environment.items() if not name.startswith(("AWS_", "FOREBAY_", "RCLONE_"))}


def say(text="", output=None):
    print(text, file=output or sys.stdout, flush=True)


@contextlib.contextmanager
def step(text, output=None):
    """Says what is being done, and afterwards how long it took."""
    print(f"{text} …", end=" ", file=output or sys.stdout, flush=True)
    begin = time.monotonic()
    yield
    say(f"{time.monotonic() - begin:.1f} s", output)


def build(*targets):
    """The release build of these targets; seconds when there is nothing to do. Answers the folder of the programs."""
    log = pathlib.Path(tempfile.gettempdir()) / f"forebay-build-{os.getuid()}.log"
    commands = [[REPOSITORY / "ops" / "setup"], ["cmake", "--preset", "release", "--log-level=WARNING"],
                ["cmake", "--build", "--preset", "release", "--target", *targets]]
    with open(log, "wb") as output:
        for command in commands:
            if subprocess.run(command, cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT, check=False).returncode:
                output.flush()
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise ClusterError(f"the build failed; the end of {log}:\n{tail}")
    log.unlink()
    return REPOSITORY / "build" / "release" / "bin"


def drop_page_cache():
    """What is cached in memory of any file is read anew. Only root may do that."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")


def metrics_at(address):
    """{(name, labels): value} of the program that says them there."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    values = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if match and not line.startswith("#"):
            values[match[1], match[2] or ""] = float(match[3])
    return values


def _end_with_parent():
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Daemon:
    """One process of the cluster. `addresses` is what its ready line said."""

    def __init__(self, name, command, env, log):
        self.name, self.command, self.env, self.log = name, [str(word) for word in command], env, pathlib.Path(log)
        self.process, self.addresses = None, {}

    def start(self, wait=True):
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=output, start_new_session=True,
                                            preexec_fn=_end_with_parent)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=READY_SECONDS):
        line = b""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0, deadline - time.monotonic())):
                    raise ClusterError(f"{self.name} was not ready within {seconds} s; {self.tail()}")
                part = os.read(self.process.stdout.fileno(), 4096)
                if not part:
                    raise ClusterError(f"{self.name} ended with {self.process.wait()}; {self.tail()}")
                line += part
        self.addresses = dict(re.findall(r"(\S+)=(\S+)", line.decode()))

    def tail(self):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"the end of {self.log}:\n" + "\n".join(text.splitlines()[-8:])

    @property
    def pid(self):
        return self.process.pid

    def metrics(self):
        """{(name, labels): value} of its /metrics."""
        return metrics_at(self.addresses["metrics"])

    def fuse_ops(self):
        """Of a mount: requests of the kernel so far, by operation."""
        ops = {}
        for (name, labels), value in self.metrics().items():
            if name == "forebay_fuse_ops_total":
                op = re.search(r'op="(\w+)"', labels)[1]
                ops[op] = ops.get(op, 0) + int(value)
        return ops

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, number=signal.SIGKILL):
        if self.running():
            self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.wait()
            self.process.stdout.close()

    def wait(self, seconds=STOP_SECONDS):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self):
        """Ends it in the orderly way and answers its exit code; None when it had to be killed."""
        self.begin_stop()
        return self.end_stop()

    def begin_stop(self):
        if self.process is not None:
            self.kill(signal.SIGTERM)

    def end_stop(self):
        """Answers as stop()."""
        if self.process is None:
            return 0
        code = self.wait()
        if code is None:
            self.kill()
        else:
            self.process.stdout.close()
        return code


def loopback():
    """To listen at, again and again."""
    return f"127.0.0.1:{free_port()}"


class Etcd(Daemon):
    """One etcd on loopback with its data in the folder; the same again after kill(). FOREBAY_ETCD names another program than
    the machine's: a newer version."""

    def __init__(self, folder):
        self.url = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        super().__init__("etcd", [
            os.environ.get("FOREBAY_ETCD", "etcd"), "--name=only", f"--data-dir={folder}/etcd", f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}", f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=only={peer}", "--log-level=error"],
            without_settings(os.environ), pathlib.Path(folder) / "etcd.log")

    def wait_ready(self, seconds=READY_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.url}/health", timeout=1).read()
                return
            if time.monotonic() > deadline or not self.running():
                raise ClusterError(f"etcd does not answer; {self.tail()}")
            time.sleep(0.02)


class Cluster:
    def __init__(self, folder, programs, s3_environment):
        self.folder, self.programs = pathlib.Path(folder), pathlib.Path(programs)
        (self.folder / "run").mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(self.folder / "run", 0o700)
        self.client_env = {**without_settings(os.environ), "FOREBAY_RUNTIME_DIR": str(self.folder / "run"),
                           "FOREBAY_TRUST_DIR": str(self.folder / "trust")}
        self.server_env = {**self.client_env, **s3_environment}
        self.coordinator, self.nodes, self.mounts = None, {}, {}
        self.etcd, self.coordinators = None, {}  # of a cluster whose coordinators stand in for one another

    def start_coordinator(self, *options, wait=True):
        listen = self.coordinator.addresses["listen"] if self.coordinator else loopback()
        self.coordinator = Daemon("coordinator", [
            self.programs / "forebay-coordinator", "--state-dir", self.folder / "coordinator", "--listen", listen,
            "--metrics-listen", "127.0.0.1:0", *options], self.server_env, self.folder / "coordinator.log")
        return self.coordinator.start(wait)

    def start_etcd(self):
        self.etcd = Etcd(self.folder).start()
        return self.etcd

    def start_standby(self, name, *options, wait=True):
        """One of several coordinators. One that is started again keeps its port."""
        known = self.coordinators.get(name)
        listen = known.addresses["listen"] if known else loopback()
        self.coordinators[name] = Daemon(name, [
            self.programs / "forebay-coordinator", "--state-dir", self.folder / name, "--listen", listen,
            "--metrics-listen", "127.0.0.1:0", "--etcd", self.etcd.url, *options],
            self.server_env, self.folder / f"{name}.log")
        return self.coordinators[name].start(wait)

    def start_node(self, name, size="2GiB", *options, wait=True, directories=None):
        """A node that is started again keeps its port, as on a machine of its own.
        `directories`: (path, size) of each of its disks."""
        listen = (name in self.nodes and self.nodes[name].addresses.get("listen")) or loopback()
        self.nodes[name] = Daemon(name, [
            self.programs / "forebay-node", "--node-id", name,
            *(word for path, bound in directories or [(self.folder / name, size)]
              for word in ("--cache-dir", f"{path}={bound}")),
            "--coordinator", self.address, "--state-dir", self.folder / "nodes", "--listen", listen,
            "--metrics-listen", "127.0.0.1:0", *options],
            self.server_env, self.folder / f"{name}.log")
        return self.nodes[name].start(wait)

    def start_nodes(self, names, *words):
        """At once; `words` are start_node's."""
        for name in names:
            self.start_node(name, *words, wait=False)
        for name in names:
            self.nodes[name].wait_ready()

    def start_standbys(self, names, *options):
        """At once."""
        for name in names:
            self.start_standby(name, *options, wait=False)
        for name in names:
            self.coordinators[name].wait_ready()

    @property
    def address(self):
        if self.coordinators:
            return ",".join(one.addresses["listen"] for one in self.coordinators.values())
        return self.coordinator.addresses["listen"]

    def mount(self, source, name, *options, wait=True):
        """Mounts `source` at folder/name, without any S3 credentials, and answers the path."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        self.mounts[name] = Daemon(name, [
            self.programs / "forebay-mount", source, path, "--foreground", "--coordinator", self.address,
            "--state-dir", self.folder / f"{name}.state", "--job-id", name, "--metrics-listen", "127.0.0.1:0", *options],
            self.client_env, self.folder / f"{name}.log")
        self.mounts[name].start(wait)
        return path

    def unmount(self, name):
        self.mounts[name].begin_stop()
        return self._unmounted(name)

    def _unmounted(self, name):
        code = self.mounts.pop(name).end_stop()
        # What a killed daemon leaves is a mount that answers ENOTCONN.
        subprocess.run(["umount", "-l", self.folder / name], check=False, stderr=subprocess.DEVNULL)
        return code

    def cli(self, *words, check=True, timeout=300, coordinator=None, env=None):
        """Runs `forebay WORD…`, as a client unless `env` says otherwise; answers the completed process."""
        command = [self.programs / "forebay", "--coordinator", coordinator or self.address, *words]
        result = subprocess.run([str(word) for word in command], env=env or self.client_env, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=timeout, check=False)
        if check and result.returncode != 0:
            raise ClusterError(f"forebay {' '.join(map(str, words))} ended with {result.returncode}: {result.stderr}")
        return result

    def json(self, *words):
        return json.loads(self.cli("-o", "json", *words).stdout)

    def stop(self):
        """Ends everything: mounts, then nodes, then coordinators, those of each kind at once. Answers the exit codes by
        name."""
        for daemon in self.mounts.values():
            daemon.begin_stop()
        codes = {name: self._unmounted(name) for name in list(self.mounts)}
        coordinators = {**({"coordinator": self.coordinator} if self.coordinator else {}), **self.coordinators}
        for daemons in (self.nodes, coordinators):
            for daemon in daemons.values():
                daemon.begin_stop()
            codes.update({name: daemon.end_stop() for name, daemon in daemons.items()})
        if self.etcd is not None:
            self.etcd.kill()
        self.nodes, self.coordinator, self.coordinators, self.etcd = {}, None, {}, None
        return codes


class Rgw:
    """A Ceph RGW of its own (ops/rgw)."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.env = {}

    def _run(self, *words):
        result = subprocess.run([REPOSITORY / "ops" / "rgw", *map(str, words)], capture_output=True, text=True,
                                check=False)
        if result.returncode != 0:
            raise ClusterError(result.stderr.strip())
        return result.stdout

    def start(self, size="2GiB"):
        lines = self._run("start", self.folder, "--size", size)
        self.env = dict(line.split("=", 1) for line in lines.split())
        return self

    def off(self):
        self._run("off", self.folder)

    def on(self):
        self._run("on", self.folder)

    def gets(self, bucket=None):
        return json.loads(self._run("gets", self.folder, *([bucket] if bucket else [])))

    def stop(self):
        self._run("stop", self.folder)

    def rclone_env(self):
        """With it rclone finds the bucket B as `:s3:B`."""
        return {**without_settings(os.environ), **self.env, "RCLONE_CONFIG": str(self.folder / "rclone.conf"),
                "RCLONE_S3_PROVIDER": "Ceph", "RCLONE_S3_ENV_AUTH": "true",
                "RCLONE_S3_ENDPOINT": self.env["AWS_ENDPOINT_URL"]}

    def make_bucket(self, bucket):
        self._rclone(f"the bucket {bucket} cannot be made", "mkdir", f":s3:{bucket}")

    def upload(self, source, bucket, prefix=""):
        """Copies a folder into the bucket, which is made. One request for each file: none asks what is there before, or after."""
        self._rclone(f"the upload to {bucket} failed", "copy", "--transfers", "16", "--no-check-dest", "--s3-no-head",
                     "--s3-upload-cutoff", "256Mi", "--quiet", str(source), f":s3:{bucket}/{prefix}")

    def remove(self, bucket, prefix):
        """All objects below it: its memory has room for them once."""
        self._rclone(f"{bucket}/{prefix} cannot be removed", "delete", "--checkers", "16", f":s3:{bucket}/{prefix}")

    def _rclone(self, failed, *words):
        result = subprocess.run(["rclone", *words], env=self.rclone_env(), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ClusterError(f"{failed}: {result.stderr.strip()[-2000:]}")


def remove(folder):
    """Deletes a cluster's folder. Refuses while something is mounted below it."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        below = [line.split()[4] for line in mounts if line.split()[4].startswith(f"{pathlib.Path(folder).resolve()}/")]
    if below:
        raise ClusterError(f"{', '.join(below)} is still mounted; {folder} is left as it is")
    shutil.rmtree(folder, ignore_errors=True)
