"""What ops/bench says about the machine that it ran on."""

import os
import pathlib
import platform
import re
import subprocess

DAMON = pathlib.Path("/sys/kernel/mm/damon/admin/kdamonds")
DAMON_RECLAIM = pathlib.Path("/sys/module/damon_reclaim/parameters")
MICROSECONDS = 1_000_000


def machine(folder):
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {"cpus": len(os.sched_getaffinity(0)), "cpu": cpu[1] if cpu else platform.machine(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "kernel": platform.release(),
            "file_system": first_line("findmnt", "-no", "FSTYPE", "-T", folder),
            "idle_pages_go_after_seconds": idle_pages_go_after_seconds()}


def idle_pages_go_after_seconds(damon=DAMON, reclaim=DAMON_RECLAIM):
    """Where the kernel takes pages back that nobody has touched for a while, also of a page cache that has room (DAMON): for
    how long; None: it does not. Then no row that says warm is surely so, and a cached epoch may read."""
    found = []
    for kdamond in sorted(damon.glob("[0-9]*")):
        if _word(kdamond / "state") != "on":
            continue
        for scheme in sorted(kdamond.glob("contexts/*/schemes/[0-9]*")):
            interval = _word(scheme.parents[1] / "monitoring_attrs/intervals/aggr_us")
            age = _word(scheme / "access_pattern/age/min")
            if _word(scheme / "action") == "pageout" and interval and age:
                found.append(int(interval) * int(age) / MICROSECONDS)
    if _word(reclaim / "enabled") == "Y":
        found.append(int(_word(reclaim / "min_age") or 0) / MICROSECONDS)
    return min(found, default=None)


def _word(file):
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def sentences(here, numbers):
    """Of what `machine` and `versions` found."""
    words = [f"{here['cpus']} CPUs ({here['cpu']}), {here['memory_bytes'] / (1 << 30):.0f} GiB of memory, Linux "
             f"{here['kernel']}, {here['file_system']}"] if here else []
    named = ", ".join(f"{name} {number}" for name, number in numbers.items() if number)
    found = [sentence for sentence in ["; ".join(filter(None, (*words, named)))] if sentence]
    seconds = here.get("idle_pages_go_after_seconds")
    if seconds is not None:
        found.append(f"This kernel takes back pages that nobody has touched for {seconds:g} s (DAMON): rows that say warm read a "
                     "part from the disk where a round takes longer, and so may reads of files that a mount's kernel had.")
    return found


def versions():
    return {"libfuse": version("fusermount3", "--version"), "s3fs": version("s3fs", "--version"),
            "rclone": version("rclone", "version"), "mount-s3": version("mount-s3", "--version"),
            "juicefs": version("juicefs", "version"), "geesefs": version("geesefs", "--version"),
            "ceph": version("radosgw", "--version")}


def first_line(*command):
    try:
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return (result.stdout or result.stderr).partition("\n")[0].strip() or None


def version(*command):
    found = re.search(r"\d+(\.\d+)+", first_line(*command) or "")
    return found[0] if found else None
