#!/usr/bin/python3
"""What systemd does for one service with Type=notify and a store of descriptors (sd_notify(3), FDSTORE=1): it starts the
program, keeps what that hands over, and passes it to the next start.

  played_service.py NAMES FD,FD,… WATCHDOG_USEC COMMAND…       becomes COMMAND with these descriptors, as systemd passes them"""

import array
import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

_FIRST_PASSED = 3
_SYS_KCMP, _KCMP_FILE = 312, 0  # x86-64


def same_open_file(one, other):
    pid = os.getpid()
    result = ctypes.CDLL(None, use_errno=True).syscall(_SYS_KCMP, pid, pid, _KCMP_FILE, one, other)
    if result < 0:
        raise OSError(ctypes.get_errno(), "kcmp")
    return result == 0


class PlayedService:
    """start(), then kill() or restart() and start() again; close() at the end."""

    def __init__(self, command, env, folder, watchdog_usec=0, store=True):
        self.command, self.log = [str(word) for word in command], folder / "service.log"
        self.env = {**env, "NOTIFY_SOCKET": str(folder / "notify")}
        if store:
            self.env["FDSTORE"] = "4096"
        self.watchdog_usec = watchdog_usec
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(self.env["NOTIFY_SOCKET"])
        self.kept = {}  # name -> descriptor
        self.fed_by = set()  # processes that said WATCHDOG=1
        self.ready = threading.Event()
        self.lock = threading.Lock()
        self.closing = False
        self.process = None
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    @property
    def pid(self):
        return self.process.pid

    def start(self, seconds=30):
        self.ready.clear()
        with self.lock:
            passed = list(self.kept.items())
        names, fds = ":".join(name for name, _ in passed), [fd for _, fd in passed]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-B", __file__, names, ",".join(map(str, fds)), str(self.watchdog_usec), *self.command],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=fds)
        deadline = time.monotonic() + seconds
        while not self.ready.wait(0.05):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the service did not get ready ({self.process.poll()}): {self.log.read_text()[-3000:]}")

    def end(self, *signals):
        """Sends (process, signal) each and answers the code of the main process, when it has ended and all that it said is
        heard."""
        for pid, number in signals:
            os.kill(pid, number)
        code = self.process.wait(30)
        while select.select([self.socket], [], [], 0)[0]:
            time.sleep(0.005)  # the thread takes it
        return code

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.closing = True
        self.thread.join()
        self.socket.close()
        for fd in self.kept.values():
            os.close(fd)
        self.kept = {}

    def _listen(self):
        while not self.closing:
            if not select.select([self.socket], [], [], 0.1)[0]:
                continue
            with self.lock:
                self._take()

    def _take(self):
        data, ancillary, _, _ = self.socket.recvmsg(8192, 4096)
        fds, sender = [], 0
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds = list(array.array("i", content))
            elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                sender = struct.unpack("iII", content)[0]
        words = dict(line.split("=", 1) for line in data.decode().splitlines())
        name = words.get("FDNAME", "stored")
        if words.get("READY") == "1":
            self.ready.set()
        if words.get("WATCHDOG") == "1":
            self.fed_by.add(sender)
        if words.get("FDSTOREREMOVE") == "1" and name in self.kept:
            os.close(self.kept.pop(name))
        for fd in fds:
            # As systemd: what is there already is not taken again, whatever its name.
            taken = words.get("FDSTORE") == "1" and not any(same_open_file(fd, other) for other in self.kept.values())
            if taken:
                assert name not in self.kept, f"{name} is kept already"
                assert words.get("FDPOLL") == "0", "systemd would wake up for each request"
                self.kept[name] = fd
            else:
                os.close(fd)


def become(names, fds, watchdog_usec, command):
    passed = [int(fd) for fd in fds.split(",") if fd]
    # Out of the way first, then to their places.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_PASSED + len(passed)) for fd in passed]
    for place, fd in enumerate(high, _FIRST_PASSED):
        os.dup2(fd, place, inheritable=True)
    os.environ["SYSTEMD_EXEC_PID"] = str(os.getpid())
    if high:
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(high)), LISTEN_FDNAMES=names)
    if int(watchdog_usec):
        os.environ.update(WATCHDOG_PID=str(os.getpid()), WATCHDOG_USEC=watchdog_usec)
    os.execvp(command[0], command)


if __name__ == "__main__":
    become(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
