"""Ports for programs of this machine that listen at the same one again after they were ended."""

import collections
import contextlib
import pathlib
import random
import socket

LEAST = 10000
# The last ones that this process was given: what is to listen there may not have begun, or be between two starts. Each is a
# name that lasts as long as its socket and that other processes of the same network see as well.
given = collections.deque(maxlen=200)


def free_port():
    """One on loopback that was free a moment ago, that nobody else was given of late, and that no connection takes meanwhile:
    the kernel gives those others."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(LEAST, end) if end > 2 * LEAST else 0))
            port = probe.getsockname()[1]
            name = socket.socket(socket.AF_UNIX)
            try:
                name.bind(f"\0forebay-port-{port}")
            except OSError:
                name.close()
                continue
            given.append(name)
            return port
