"""What an S3 gives whoever only fetches: the objects of a bucket, with a number of connections and nothing else to do."""

import os
import subprocess
import time

import boto3
import botocore.config

from local_cluster import ClusterError, without_settings

FETCH_SECONDS = 600


class Objects:
    """Presigned, so that nothing is signed while it is measured. `ranges`: (name, first byte, last byte); else whole objects."""

    def __init__(self, environment, bucket, names, config, ranges=()):
        self.config = config
        client = boto3.client(
            "s3", endpoint_url=environment["AWS_ENDPOINT_URL"], region_name="us-east-1",
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"], aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            config=botocore.config.Config(s3={"addressing_style": "path"}, signature_version="s3v4"))
        urls = {name: client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": name}) for name in names}
        parts = [f'url = "{urls[name]}"\nrange = "{first}-{last}"\noutput = "/dev/null"\n' for name, first, last in ranges]
        # A range goes with all URLs of its part of the file alone.
        config.write_text("next\n".join(parts) if parts else "".join(
            f'url = "{url}"\noutput = "/dev/null"\n' for url in urls.values()))

    def fetch(self, connections):
        """Seconds that curl takes for all of them."""
        begin = time.monotonic()
        result = subprocess.run(["curl", "--silent", "--show-error", "--fail", "--parallel", "--parallel-immediate",
                                 "--parallel-max", str(connections), "--config", str(self.config)],
                                env=without_settings(os.environ), capture_output=True, text=True, timeout=FETCH_SECONDS,
                                check=False)
        if result.returncode != 0:
            raise ClusterError(f"curl ended with {result.returncode}: {result.stderr.strip()[-500:]}")
        return time.monotonic() - begin
