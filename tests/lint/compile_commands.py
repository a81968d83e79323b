"""How the build compiles a file, and a memory of which files have passed a check, so that unchanged ones cost nothing."""

import hashlib
import json
import os
import re
import shlex
import subprocess

# For a file that no build knows (the bad examples).
_PLAIN = ["clang++-19", "-std=c++23", "-Wall", "-Wextra"]


class CompileCommands:
    """The compile flags of each source of a build folder; without one, plain C++23."""

    def __init__(self, root, build):
        self.root = root
        self._flags = {}
        if build is None:
            return
        for entry in json.loads((build / "compile_commands.json").read_text()):
            path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            if path.startswith(f"{root}/"):
                self._flags[os.path.relpath(path, root)] = (entry["directory"], self._without_output(entry))

    @staticmethod
    def _without_output(entry):
        # A source has to name all that it needs: the precompiled headers go.
        words = shlex.split(re.sub(r"-include-pch \S+", "", entry["command"]))
        # `env CCACHE_X=… ccache clang++-19 …`: the launcher goes.
        compiler = next(i for i, word in enumerate(words) if re.search(r"(clang|g)\+\+(-\d+)?$", word))
        kept = []
        skip = False
        for word in words[compiler:]:
            if skip or word in ("-c", entry["file"]):
                skip = False
            elif word == "-o":
                skip = True
            else:
                kept.append(word)
        return kept

    def sources(self):
        return sorted(self._flags)

    def of(self, name):
        """(folder to run in, compiler and flags) of a source, or of the source nearest to a header."""
        if name in self._flags:
            return self._flags[name]
        if not self._flags:
            return str(self.root), [*_PLAIN, f"-I{self.root}"]
        return self._flags[max(self._flags, key=lambda source: len(os.path.commonprefix([source, name])))]

    def dependencies(self, name):
        """Every file that compiling `name` reads; empty when it does not compile."""
        folder, command = self.of(name)
        result = subprocess.run([*command, "-x", "c++", "-M", str(self.root / name)], cwd=folder, capture_output=True,
                                text=True, check=False)
        if result.returncode != 0:
            return []
        words = result.stdout.replace("\\\n", " ").split()
        return [os.path.normpath(os.path.join(folder, word)) for word in words[1:]]


class Passed:
    """Which files have passed, as long as neither they nor what they include nor `settings` has changed. Kept in the
    build folder; without one nothing is remembered."""

    def __init__(self, root, build, check, settings):
        self._folder = build and build / "lint" / check
        self._root = root
        self._settings = hashlib.sha256(repr(settings).encode()).hexdigest()
        self._signatures = {}

    def _signature(self, path):
        if path not in self._signatures:
            try:
                if path.startswith(f"{self._root}/"):
                    with open(path, "rb") as file:
                        signature = hashlib.sha256(file.read()).hexdigest()
                else:
                    status = os.stat(path)
                    signature = f"{status.st_size} {status.st_mtime_ns}"
            except OSError:
                signature = "gone"
            self._signatures[path] = signature
        return self._signatures[path]

    def _record(self, name):
        return self._folder / name.replace("/", "!")

    def has(self, name, command):
        if self._folder is None:
            return False
        try:
            record = json.loads(self._record(name).read_text())
        except (OSError, ValueError):
            return False
        return (record["settings"] == self._settings and record["command"] == command
                and all(self._signature(path) == seen for path, seen in record["files"].items()))

    def add(self, name, command, dependencies):
        if self._folder is None or not dependencies:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        record = {"settings": self._settings, "command": command,
                  "files": {path: self._signature(path) for path in dependencies}}
        scratch = self._record(name).with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(record))
        scratch.rename(self._record(name))


def version(tool):
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
