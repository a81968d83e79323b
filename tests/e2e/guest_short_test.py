#!/usr/bin/python3
"""A node and a mount beside a training process that wants everything of their machine keep to their bounds: guest_test.py in short."""

from e2e import main
from guest import LIMIT, MIB, NODE_MEMORY, Guest

NODE_RATE, MOUNT_RATE = 64 * MIB, 32 * MIB


class GuestShort(Guest):
    ROUNDS, WINDOW_SECONDS = 1, 3

    def test_beside_a_process_that_wants_everything_node_and_mount_keep_to_their_bounds(self):
        node, mount = self.beside_hogs(
            "node and mount with bounds",
            ("--cpu-limit", "1", "--memory-limit", f"{NODE_MEMORY}", "--max-bandwidth", f"{NODE_RATE}"),
            ("--cpu-limit", "1", "--max-bandwidth", f"{MOUNT_RATE}"), node=(1, NODE_RATE), mount=(1, MOUNT_RATE))
        # The limit, and as much again for what is not data on its way.
        self.assertLess(node, 2 * NODE_MEMORY)
        self.assertLess(mount, 2 * LIMIT)


if __name__ == "__main__":
    main()
