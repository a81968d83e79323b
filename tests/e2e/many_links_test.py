#!/usr/bin/python3
"""Twenty links on one host, side by side; and every key that none of them can show, with its reason."""

import os
import pathlib
import re

from e2e import E2eTest, eventually, main
from mount_state import names_in, worker_of

LINKS, FILES = 20, 12
# A link costs the process that serves it a session with the kernel and a mapped listing: half a MiB was measured.
MIB_OF_A_LINK = 3


def resident_mib(pid):
    """Without what is mapped from files: listings are the page cache's."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) / 1024


class ManyLinks(E2eTest):
    NODES = ("n1",)

    def test_twenty_links_are_mounted_side_by_side(self):
        files = {f"set{link:02d}/c{i % 3}/{i}.bin": os.urandom(2000 + i) for link in range(LINKS) for i in range(FILES)}
        self.put(files)
        self.start()
        self.link("set00", "set00")
        mount = pathlib.Path(self.cluster.mount("/", "all"))
        eventually(lambda: os.listdir(mount) == ["set00"], "the first link")
        supervisor = self.cluster.mounts["all"].pid
        worker = worker_of(supervisor)
        before = resident_mib(worker)
        names = [f"set{link:02d}" for link in range(LINKS)]
        for name in names[1:]:
            self.link(name, name)
        eventually(lambda: sorted(os.listdir(mount)) == names, "all links")
        for name in names:
            self.assertEqual(len(names_in(mount / name)), FILES)
        for key, body in files.items():
            self.assertEqual((mount / key).read_bytes(), body)
        self.assertEqual(worker_of(supervisor), worker)
        grown = resident_mib(worker) - before
        print(f"{LINKS - 1} more links: {grown:.1f} MiB in {before:.0f} MiB")
        self.assertLess(grown, (LINKS - 1) * MIB_OF_A_LINK)
        stats = {link["name"]: (link["objects"], link["misses"]) for link in self.cluster.json("stats")["links"]}
        self.assertEqual(stats, {name: (FILES, FILES) for name in names})

        # One goes, and the others stay.
        self.cluster.cli("unlink", "set07", "--force")
        eventually(lambda: sorted(os.listdir(mount)) == [name for name in names if name != "set07"], "it is gone")
        self.assertEqual((mount / "set08/c0/0.bin").read_bytes(), files["set08/c0/0.bin"])

    def test_every_hidden_key_is_listed_with_its_reason(self):
        reasons = {
            "//lead": "a component of the key is empty",
            "a/../b": "a component of the key is '.' or '..'",
            "./c": "a component of the key is '.' or '..'",
            "l" * 256: "a component of the key is longer than 255 bytes, or the key than 1,024",
            ".forebay": "the name '.forebay' at the root of a link is reserved",
            "name": "a directory has the same name",
            "marker/": "the key ends with '/' but the object is not empty",
        }
        shown = {"name/below": b"x", "marker/below": b"x", "empty/": b"", "deep/.forebay": b"x", "l": b"x", "a/x": b"x"}
        self.put({**shown, **{key: b"x" for key in reasons}}, "p/")
        self.start()
        self.link("data", "p")
        rows = self.cluster.json("ls", "data", "--hidden")["entries"]
        self.assertEqual({row["key"].removeprefix("p/"): row["reason"] for row in rows}, reasons)
        self.assertEqual(self.link_stats()["hidden_keys"], len(reasons))
        mount = self.cluster.mount("data", "m1")
        self.assertEqual(names_in(mount), ["a/x", "deep/.forebay", "l", "marker/below", "name/below"])
        text = self.cluster.cli("ls", "data", "--hidden").stdout
        for reason in reasons.values():
            self.assertIn(reason, text)
        # Below a folder are its own, and below a file none, whatever it is called.
        below = [row["key"] for row in self.cluster.json("ls", "data/a", "--hidden")["entries"]]
        self.assertEqual(below, ["p/a/../b"])
        self.assertEqual(self.cluster.json("ls", "data/l", "--hidden")["entries"], [])


if __name__ == "__main__":
    main()
