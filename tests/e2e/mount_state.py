"""What the kernel says of a mount and of the processes behind it: who serves, where it is, which names it shows."""

import os
import pathlib


def state_of(pid):
    """'R', 'S', 'T' … of a process; None when there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def worker_of(supervisor):
    """The process that serves; None while there is none."""
    try:
        children = pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    except OSError:
        return None
    alive = [int(child) for child in children if state_of(int(child)) not in (None, "Z", "X")]
    return alive[0] if len(alive) == 1 else None


def masks_of(pid):
    """The CPUs that each thread of a process may run on."""
    masks = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            masks.append(os.sched_getaffinity(int(task.name)))
        except ProcessLookupError:
            pass  # ended meanwhile
    return masks


def mounts_below(folder):
    """{mount point: [source, type]}, from the kernel's table."""
    mounts = {}
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        for line in table:
            place, rest = line.split()[4], line.split(" - ")[1].split()
            if place == str(folder) or place.startswith(f"{folder}/"):
                mounts[place] = rest[1::-1]
    return mounts


def names_in(mount):
    """Of every file below, relative to the mount, sorted."""
    return sorted(str(path.relative_to(mount)) for path in pathlib.Path(mount).rglob("*") if path.is_file())


def sleeps_of(pid):
    """How often the threads of a process have slept, those that live."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text()
        except OSError:
            continue  # ended meanwhile
        total += int(status.split("voluntary_ctxt_switches:")[1].split()[0])
    return total
