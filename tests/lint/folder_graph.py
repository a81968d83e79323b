#!/usr/bin/python3
"""Which folder may include which, and which folder alone may use which library. The tables below are the design."""

import graphlib
import sys

import source_tree

COMMON = ["common/base", "common/model", "common/config", "common/ring", "common/snapshot", "common/s3", "common/s3/auth",
          "common/trust", "common/wire"]

# folder: the folders that it may include besides itself. A file belongs to the longest folder that it lies in.
ALLOWED = {
    "proto": [],
    "common/base": [],
    "common/model": ["common/base"],
    "common/config": ["common/base", "common/model"],
    "common/ring": ["common/base", "common/model"],
    "common/snapshot": ["common/base", "common/model"],
    "common/s3": ["common/base", "common/model"],
    "common/s3/auth": ["common/base", "common/model", "common/s3"],
    "common/trust": ["common/base", "common/model", "proto"],
    "common/wire": ["common/base", "common/model", "common/trust", "proto"],
    "cachenode/store": ["common/base", "common/model"],
    "cachenode": [*COMMON, "cachenode/store", "proto"],
    "coordinator": [*COMMON, "proto"],
    "fuse-client/supervisor": ["common/base"],
    "fuse-client": [*COMMON, "fuse-client/supervisor", "proto"],
    "cli": ["common/base", "common/model", "common/trust", "common/wire", "common/config", "proto"],
}
ALLOWED["tests"] = list(ALLOWED)  # and nobody includes tests

# <header that begins so>: the folders or files that may include it. Tests may include anything.
LIBRARIES = {
    "curl/": ["common/s3/", "coordinator/etcd_http.cc"],
    "fuse": ["fuse-client/"],
    "linux/fuse.h": ["fuse-client/"],
    "rocksdb/": ["cachenode/store/", "coordinator/"],
    "boost/beast": ["common/base/http_server.cc"],
    "boost/asio.hpp": [],  # everything at once: 3 s of compile time in each file
}


def folder_of(path):
    fitting = [folder for folder in ALLOWED if path.startswith(folder + "/")]
    return max(fitting, key=len, default=None)


def check(root, name, known):
    folder = folder_of(name)
    if folder is None:
        yield f"{name}:1: lies in no folder of the design"
        return
    for line, spelling in source_tree.includes(source_tree.read(root, name)):
        target = spelling[1:-1]
        if spelling.startswith("<"):
            for library, users in LIBRARIES.items():
                if target.startswith(library) and not name.startswith(("tests/", *users)):
                    yield f"{name}:{line}: <{target}> may only be included by {', '.join(users) or 'nobody'}"
            continue
        generated = target.startswith("proto/") and target.endswith(".pb.h")
        if target not in known and not (generated and target[:-5] + ".proto" in known):
            yield f'{name}:{line}: there is no "{target}"; includes are relative to the top folder'
        elif folder_of(target) not in (folder, *ALLOWED[folder]):
            yield f'{name}:{line}: {folder} may not include "{target}"'


def main():
    root = source_tree.arguments(__doc__).root
    try:
        graphlib.TopologicalSorter(ALLOWED).prepare()
    except graphlib.CycleError as error:
        sys.exit(f"the table of folders has a cycle: {' -> '.join(error.args[1])}")
    known = set(source_tree.files(root))
    names = source_tree.cpp_files(root)
    source_tree.report([finding for name in names for finding in check(root, name, known)], len(names))


main()
