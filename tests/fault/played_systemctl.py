#!/usr/bin/python3
"""systemctl on a machine without systemd: starts, stops and restarts what a unit says, as the user that it says, with its
folders, credentials and environment, on a file system that is read-only but for what the unit opens, and with the system
calls that it allows.

What a unit may say is listed here; a new word fails, so that nobody believes that it is tried. Not tried: IGNORED."""

import contextlib
import errno
import json
import mmap
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

UNITS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
READY_SECONDS = 120
PLAYED = {"Type", "ExecStartPre", "ExecStart", "TimeoutStopSec", "User", "Group", "StateDirectory", "StateDirectoryMode", "CacheDirectory",
          "CacheDirectoryMode", "RuntimeDirectory", "RuntimeDirectoryMode", "Environment", "EnvironmentFile", "LoadCredential",
          "UMask", "LimitNOFILE", "LimitCORE", "CapabilityBoundingSet", "NoNewPrivileges", "ProtectSystem", "ReadWritePaths",
          "InaccessiblePaths", "ProtectHome", "PrivateTmp", "NotifyAccess", "SystemCallFilter", "SystemCallErrorNumber",
          "RestrictAddressFamilies", "MemoryDenyWriteExecute"}
IGNORED = {"Description", "Documentation", "Wants", "After", "WantedBy", "Alias", "ExecReload", "Restart", "RestartSec",
           "StartLimitIntervalSec", "WatchdogSec", "RuntimeDirectoryPreserve", "PermissionsStartOnly", "PrivateDevices", "ProtectClock",
           "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables",
           "ProtectProc", "RemoveIPC", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality",
           "SystemCallArchitectures", "TimeoutStartSec", "WatchdogSignal", "OOMPolicy", "KillMode", "FileDescriptorStoreMax",
           "RestartKillSignal", "DevicePolicy", "DeviceAllow"}
WITH_FILTER = "exec-with-filter"  # a verb of ours: with a filter's file, and the command that it is for
# In a mount namespace of the service's own: "$1" the folders that it may write to, "$2" what it may not see, the rest the
# command.
SANDBOX = """
for folder in $1; do mount --bind "$folder" "$folder"; done
for hidden in $2; do
  if [ -d "$hidden" ]; then mount -t tmpfs -o ro,mode=0000 tmpfs "$hidden"; else mount --bind /run/played.hidden "$hidden"; fi
done
mount -t tmpfs -o size=64m,mode=1777 tmpfs /tmp
mount -t tmpfs -o ro,mode=0755 tmpfs /home
mount -t tmpfs -o ro,mode=0700 tmpfs /root
mapfile -t mounts < /proc/self/mountinfo
for line in "${mounts[@]}"; do
  read -r _ _ _ _ place _ rest <<< "$line"
  for kept in /dev /proc /sys /tmp $1; do
    [ "$place" = "$kept" ] || [ "${place#"$kept"/}" != "$place" ] || continue
    continue 2
  done
  case "$rest" in *"- fuse"*) continue ;; esac
  mountpoint -q "$place" || continue  # another mount hides it
  mount -o remount,bind,ro "$place"
done
shift 2
exec "$@"
"""


def words_of(unit):
    """{key: [value, …]} of a unit; an empty value ends what stood before."""
    file = re.sub("@.*", "@", unit) + ".service"
    path = next((path for folder in UNITS if (path := pathlib.Path(folder) / file).exists()), None)
    if path is None:
        sys.exit(f"Unit {unit}.service not found.")
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"(\w+)=(.*)", line):
            found.setdefault(match[1], []).append(expanded(match[2], unit))
    if unknown := found.keys() - PLAYED - IGNORED:
        sys.exit(f"{unit}.service says {', '.join(sorted(unknown))}, which played_systemctl.py neither plays nor ignores")
    return found


def expanded(text, unit):
    places = {"%t": "/run", "%d": f"/run/credentials/{unit}.service", "%p": unit, "%i": unit.partition("@")[2],
              "%H": socket.gethostname(), "%%": "%"}
    return re.sub(r"%.", lambda match: places[match[0]], text)


def system_calls(filters):
    """The names that a unit's lines SystemCallFilter= allow. systemd always allows what it calls @default."""
    groups, members = {}, []
    for line in subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("@"):
            groups[line] = members = []
        elif line.startswith("    ") and not line.strip().startswith("#"):
            members.append(line.strip())
        elif line.startswith("#"):
            members = []  # what follows is in no group

    def named(word):
        return set().union(*map(named, groups[word])) if word.startswith("@") else {word}

    allowed = named("@default")
    assert not filters[0].startswith("~"), "only lists of what is allowed are played"
    for line in filters:
        of_line = set().union(*map(named, line.removeprefix("~").split()))
        allowed = allowed - of_line if line.startswith("~") else allowed | of_line
    return sorted(allowed)


def execute_with_filter(file, command):
    """Runs the command with what Service.filter wrote, as the user and with the rights that this process has already."""
    import seccomp  # where a unit is started, and not for each verb

    told = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    refused = seccomp.SyscallFilter(seccomp.ALLOW)
    families = {int(getattr(socket, family)) for family in told["families"]}
    others = [seccomp.Arg(0, seccomp.LT, min(families)), seccomp.Arg(0, seccomp.GT, max(families)),
              *[seccomp.Arg(0, seccomp.EQ, other) for other in range(min(families), max(families)) if other not in families]]
    for other in others:
        refused.add_rule(seccomp.ERRNO(errno.EAFNOSUPPORT), "socket", other)
    if told["write_or_execute"]:
        both = mmap.PROT_WRITE | mmap.PROT_EXEC
        refused.add_rule(seccomp.ERRNO(errno.EPERM), "mmap", seccomp.Arg(2, seccomp.MASKED_EQ, both, both))
        refused.add_rule(seccomp.ERRNO(errno.EPERM), "mprotect",
                         seccomp.Arg(2, seccomp.MASKED_EQ, mmap.PROT_EXEC, mmap.PROT_EXEC))
    number = told["error"]
    allowed = seccomp.SyscallFilter(seccomp.ERRNO(getattr(errno, number)) if number else seccomp.KILL_PROCESS)
    for name in told["system_calls"]:
        with contextlib.suppress(RuntimeError, ValueError):  # not of this architecture
            allowed.add_rule(seccomp.ALLOW, name)
    refused.load()
    allowed.load()
    os.execvp(command[0], command)


class Service:
    def __init__(self, unit):
        self.unit, self.words = unit, words_of(unit)
        self.user = self.one("User", "root")
        self.pid_file = pathlib.Path(f"/run/{unit}.played.pid")

    def one(self, key, otherwise=None):
        return self.words.get(key, [otherwise])[-1]

    def folders(self):
        """Makes those that the unit owns; answers what it may write to."""
        writable = []
        for key, base in (("StateDirectory", "/var/lib"), ("CacheDirectory", "/var/cache"), ("RuntimeDirectory", "/run")):
            for name in self.one(key, "").split():
                path = pathlib.Path(base) / name
                path.mkdir(parents=True, exist_ok=True)
                shutil.chown(path, self.user, self.one("Group", self.user))
                path.chmod(int(self.one(f"{key}Mode", "0755"), 8))
                writable.append(path)
        for text in self.words.get("ReadWritePaths", []):
            path = pathlib.Path(text.removeprefix("-"))
            if path.exists():
                writable.append(path)
            elif not text.startswith("-"):
                sys.exit(f"{self.unit}: {path} of ReadWritePaths does not exist")
        return writable

    def hidden(self):
        """What is there of InaccessiblePaths."""
        pathlib.Path("/run/played.hidden").touch(0)
        paths = [pathlib.Path(word.removeprefix("-")) for text in self.words.get("InaccessiblePaths", []) for word in text.split()]
        return [path for path in paths if path.exists()]

    def credentials(self):
        folder = pathlib.Path(f"/run/credentials/{self.unit}.service")
        folder.mkdir(parents=True, exist_ok=True)
        for text in self.words.get("LoadCredential", []):
            name, source = text.split(":", 1)
            (folder / name).unlink(missing_ok=True)
            shutil.copyfile(source, folder / name)
            (folder / name).chmod(0o400)
            shutil.chown(folder / name, self.user)
        folder.chmod(0o500)
        shutil.chown(folder, self.user)

    def environment(self):
        found = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "USER": self.user}
        for text in self.words.get("Environment", []):
            found.update(word.split("=", 1) for word in shlex.split(text))
        for text in self.words.get("EnvironmentFile", []):
            path = pathlib.Path(text.removeprefix("-"))
            if not path.exists() and text.startswith("-"):
                continue
            for line in path.read_text(encoding="utf-8").splitlines():
                if "=" in line and not line.startswith(("#", ";")):
                    name, value = line.split("=", 1)
                    found[name.strip()] = "".join(shlex.split(value))
        return found

    def bounded(self, key, which):
        """Where even root may not raise a limit, what there is must do."""
        hard = resource.getrlimit(which)[1]
        return self.one(key) if hard == resource.RLIM_INFINITY else min(int(self.one(key)), hard)

    def filter(self):
        """A file that says which system calls the service may do."""
        path = pathlib.Path(f"/run/{self.unit}.played.filter")
        path.write_text(json.dumps({
            "system_calls": system_calls(self.words["SystemCallFilter"]), "error": self.one("SystemCallErrorNumber"),
            "families": self.one("RestrictAddressFamilies").split(),
            "write_or_execute": self.one("MemoryDenyWriteExecute") == "yes"}), encoding="utf-8")
        path.chmod(0o444)
        return path

    def command(self, env):
        words = []
        for word in self.one("ExecStart").split():
            words += env.get(word[1:], "").split() if word.startswith("$") else [word]
        run = ["setpriv", "--reuid", self.user, "--regid", self.one("Group", self.user), "--init-groups"]
        if self.one("NoNewPrivileges") == "yes":
            run += ["--no-new-privs"]
        if (bounds := self.one("CapabilityBoundingSet")) is not None:
            kept = [f"+{name.lower().removeprefix('cap_')}" for name in bounds.split()]
            run += ["--bounding-set=" + ",".join(["-all", *kept]), "--inh-caps=-all"]
        if "SystemCallFilter" in self.words:
            run += ["/usr/bin/python3", "-B", os.path.abspath(__file__), WITH_FILTER, str(self.filter())]
        limits = [f"--{name}={self.bounded(key, which)}" for key, name, which in (
            ("LimitNOFILE", "nofile", resource.RLIMIT_NOFILE), ("LimitCORE", "core", resource.RLIMIT_CORE))
            if self.one(key) is not None]
        run = ["prlimit", *limits, *run, *words] if limits else [*run, *words]
        writable = self.folders()
        if self.one("ProtectSystem") == "strict":
            for key in ("ProtectHome", "PrivateTmp"):
                assert self.one(key) == "yes", key
            run = ["unshare", "--mount", "--propagation", "private", "bash", "-euc", SANDBOX, "-",
                   " ".join(map(str, dict.fromkeys(writable))), " ".join(map(str, self.hidden())), *run]
        return run

    def prepare(self):
        for text in self.words.get("ExecStartPre", []):
            assert text.startswith("+"), "only what root does outside of the service's view is played"
            if (ended := subprocess.run(text[1:].split(), stdin=subprocess.DEVNULL, check=False).returncode):
                sys.exit(f"Job for {self.unit}.service failed: {text} ended with {ended}")

    def pid(self):
        """Of its process, while it runs."""
        try:
            pid = int(self.pid_file.read_text())
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return None
        return pid if state != "Z" else None

    def start(self, wait):
        if self.pid():
            return
        assert self.one("Type") == "notify", self.unit
        notify = pathlib.Path(f"/run/{self.unit}.played.notify")
        notify.unlink(missing_ok=True)
        self.credentials()
        env = self.environment()
        self.folders()
        self.prepare()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, \
                open(f"/var/log/{self.unit}.log", "ab") as log:
            ready.bind(str(notify))
            notify.chmod(0o666)
            process = subprocess.Popen(self.command(env), env={**env, "NOTIFY_SOCKET": str(notify)}, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, cwd="/", start_new_session=True,
                                       umask=int(self.one("UMask", "0022"), 8))
            self.pid_file.write_text(str(process.pid))
            if wait:
                self.wait_ready(process, ready)

    def wait_ready(self, process, ready):
        ready.settimeout(0.1)
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if b"READY=1" in ready.recv(4096).splitlines():
                    return
            except TimeoutError:
                pass
        sys.exit(f"Job for {self.unit}.service failed: it ended with {process.poll()} and never said that it was ready.")

    def stop(self):
        if (pid := self.pid()) is None:
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + float(self.one("TimeoutStopSec", "90s").removesuffix("s"))
        while self.pid():
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                sys.exit(f"{self.unit}.service did not end in its time and was killed")
            time.sleep(0.02)


def main():
    if sys.argv[1] == WITH_FILTER:
        execute_with_filter(sys.argv[2], sys.argv[3:])
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    verb, *units = [word for word in sys.argv[1:] if not word.startswith("--")]
    if set(options) - {"--now", "--no-block"}:
        sys.exit(f"systemctl {' '.join(options)} is not played")
    now = "--now" in options
    for unit in units:
        service = Service(unit.removesuffix(".service"))
        if verb in ("stop", "restart") or (verb == "disable" and now):
            service.stop()
        if verb in ("start", "restart") or (verb == "enable" and now):
            service.start(wait="--no-block" not in options)
        if verb not in ("start", "stop", "restart", "enable", "disable"):
            sys.exit(f"systemctl {verb} is not played")


main()
