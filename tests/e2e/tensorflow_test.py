#!/usr/bin/python3
"""tf.data over a mount, with an unchanged script (docs/TRAINING.md). Skipped where TensorFlow is not installed; it is no
package of Debian."""

import subprocess
import sys

from e2e import main
from training import JOB, PYTHON, SECONDS, TrainingTest, has


class TensorFlow(TrainingTest):
    JOB = JOB.with_name("training_job_tensorflow.py")

    def fill(self):
        super().fill()
        subprocess.run([PYTHON, "-B", self.JOB, self.source, "save"], env=self.environment(), check=True,
                       capture_output=True, timeout=SECONDS)

    def environment(self):
        return {**super().environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

    def test_an_unchanged_script_reads_every_byte_and_s3_is_read_once(self):
        # What this script does not read; it counts, too.
        for name in ("rows.npy", *(f"tars/{i:06d}.tar" for i in range(5))):
            (self.mount / name).read_bytes()
        self.check(("files", "globbed", "records", "images", "cached"), ((), ("--parallel", "1"), ("--parallel", "16")))


if __name__ == "__main__":
    if not has("tensorflow"):
        print("skipped: TensorFlow is not installed (pip install tensorflow-cpu)", file=sys.stderr)
        sys.exit(77)
    main()
