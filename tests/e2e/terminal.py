"""What the terminal tests share: a program in a pseudo-terminal, and a gate before S3 that makes a listing last."""

import fcntl
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import threading
import time

PATIENCE_SECONDS = 60
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|\x07")


class Terminal:
    """A program whose three standard streams are a terminal; `out` moves stdout elsewhere."""

    def __init__(self, command, env, columns=80, rows=24, out=None):
        self.master, slave = pty.openpty()
        self.text = ""
        self.resize(columns, rows)

        def lead():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([str(word) for word in command], env={"TERM": "xterm-256color", **env},
                                        stdin=slave, stdout=slave if out is None else out, stderr=slave,
                                        preexec_fn=lead, close_fds=True)
        os.close(slave)

    def resize(self, columns, rows=24):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def pump(self, seconds):
        """Reads what there is; false when the program has closed the terminal."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            part = os.read(self.master, 65536)
        except OSError:
            return False
        self.text += part.decode(errors="replace")
        return bool(part)

    def until(self, condition, what, seconds=PATIENCE_SECONDS):
        """Reads until condition(text so far), or a text that must come, is true."""
        wanted = (lambda text: condition in text) if isinstance(condition, str) else condition
        deadline = time.monotonic() + seconds
        while not wanted(self.text):
            if time.monotonic() > deadline or not self.pump(0.1):
                raise AssertionError(f"{what}: did not come; the terminal shows {self.text!r}")
        return self.text

    def end(self, seconds=PATIENCE_SECONDS):
        """Reads to the end; answers the exit code."""
        deadline = time.monotonic() + seconds
        while self.pump(0.1):
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end; the terminal shows {self.text!r}")
        return self.process.wait(seconds)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


class Gate:
    """A TCP proxy to S3. While it is shut, no page of a listing but the first one is asked for: such a request waits
    here, and so does the task that sent it."""

    def __init__(self, endpoint):
        host, port = endpoint.removeprefix("http://").rsplit(":", 1)
        self.target = (host, int(port))
        self.opened, self.held = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.open_sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target)
            except OSError:
                return
            self.open_sockets += [client, server]
            threading.Thread(target=self._copy, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client, False), daemon=True).start()

    def _copy(self, source, sink, requests):
        try:
            while part := source.recv(65536):
                if requests and b"continuation-token" in part and not self.opened.is_set():
                    self.held.set()
                    self.opened.wait()
                sink.sendall(part)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def open(self):
        self.opened.set()

    def close(self):
        self.open()
        for end in [self.listener, *self.open_sockets]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
