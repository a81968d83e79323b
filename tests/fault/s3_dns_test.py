#!/usr/bin/python3
"""The name of S3 is not resolved, for a while: cached data reads on, what is not cached waits and comes, patience that
ends is an EIO with its sentence, and the node counts it by itself. The names are those of a file of the test's own,
in a mount namespace of its own."""

import ctypes
import os
import pathlib
import sys
import tempfile
import threading

import scripted_s3
from e2e import drop_page_cache, eventually, main
from local_cluster import remove
from netns import SKIPPED

HOST = "s3.forebay.invalid"  # no name server knows it
_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_LIBC = ctypes.CDLL(None, use_errno=True)


def _mount(source, target, flags):
    if _LIBC.mount(os.fsencode(source), os.fsencode(target), None, flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {source} at {target}")


class Names:
    """What names this process and those that it starts can resolve: localhost, and HOST as long as known() said so."""

    def __init__(self, folder):
        self.hosts = folder / "hosts"
        switch = folder / "nsswitch.conf"
        switch.write_text("passwd: files\ngroup: files\nhosts: files\n")
        self.known(False)
        if _LIBC.unshare(_CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "a mount namespace of one's own")
        _mount("none", "/", _MS_REC | _MS_PRIVATE)
        _mount(self.hosts, "/etc/hosts", _MS_BIND)
        _mount(switch, "/etc/nsswitch.conf", _MS_BIND)

    def known(self, yes):
        # The same file all the time: another one in its place would not be the one that is mounted.
        self.hosts.write_text("127.0.0.1 localhost\n" + (f"127.0.0.1 {HOST}\n" if yes else ""))


class S3Dns(scripted_s3.ScriptedS3Test):
    NODES = ("n1",)

    def setUp(self):
        super().setUp()
        NAMES.known(True)
        self.files = {f"{i}": os.urandom(50_000 + i) for i in range(4)}
        self.put(self.files)
        self.cluster.server_env["AWS_ENDPOINT_URL"] = self.s3.endpoint.replace("127.0.0.1", HOST)

    def begin(self, *node_options):
        self.start(node_options=(*self.NODE_OPTIONS, *node_options))
        self.link()

    def forget(self, *node_options):
        """The name is gone, and with the processes all that they had looked up."""
        NAMES.known(False)
        self.cluster.nodes["n1"].stop()
        self.cluster.coordinator.stop()
        self.cluster.start_coordinator()
        self.cluster.start_node("n1", self.CACHE, *self.NODE_OPTIONS, *node_options)
        drop_page_cache()

    def test_readers_wait_for_a_name_that_comes_back(self):
        self.begin()
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        self.assertEqual((mount / "0").read_bytes(), self.files["0"])
        self.assertEqual(self.retries("dns"), 0)
        self.forget()
        self.assertEqual((mount / "0").read_bytes(), self.files["0"], "what is cached reads on")
        late = []
        reader = threading.Thread(target=lambda: late.append((mount / "1").read_bytes()))
        reader.start()
        eventually(lambda: self.retries("dns") > 0, "the node has asked for the name in vain")
        self.assertEqual(late, [])
        NAMES.known(True)
        reader.join(60)
        self.assertEqual(late, [self.files["1"]])
        self.assertEqual(self.retries("network"), 0, "a name that is not known is no broken connection")
        self.assertEqual(self.errors_of(mount), "")

    def test_patience_that_ends_says_which_name_is_not_known(self):
        self.begin("--s3-timeout", "2s")
        mount = pathlib.Path(self.cluster.mount("data", "m1", "--s3-timeout", "3s"))
        self.assertEqual((mount / "0").read_bytes(), self.files["0"])
        self.forget("--s3-timeout", "2s")
        with self.assertRaises(OSError) as failed:
            (mount / "1").read_bytes()
        self.assertEqual(os.strerror(failed.exception.errno), "Input/output error")
        said = self.errors_of(mount)
        self.assertIn(HOST, said)
        self.assertIn("name service of this machine", said)
        self.assertGreater(self.retries("dns"), 0)
        NAMES.known(True)
        self.assertEqual((mount / "1").read_bytes(), self.files["1"])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("only root may have names of its own")
        sys.exit(SKIPPED)
    FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="forebay-names-"))
    try:
        NAMES = Names(FOLDER)
        main()
    finally:
        remove(FOLDER)
