"""Ports for programs of this machine that listen at the same one again after they were ended."""

import contextlib
import pathlib
import random
import socket

LEAST = 10000


def free_port():
    """One on loopback that was free a moment ago, and that no connection takes meanwhile: the kernel gives those others."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(LEAST, end) if end > 2 * LEAST else 0))
            return probe.getsockname()[1]
