"""A bad S3 in front of real daemons: the program scripted_s3 (tests/fakes/s3_script.h says what it can do wrong), and
test cases whose clusters read from it."""

import http.client
import json
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from e2e import E2eTest  # noqa: E402
from local_cluster import remove, without_settings  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("FOREBAY_TESTS", "")).resolve() / "scripted_s3"
KEYS = {"AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": "none-looks"}


class Reader(threading.Thread):
    """Reads all files again and again until stop(): each from its node's cache or from S3, or, where it drops no pages,
    also out of the kernel's."""

    def __init__(self, mount, expected, drops_pages=True):
        super().__init__()
        self.mount, self.expected, self.drops_pages = pathlib.Path(mount), expected, drops_pages
        self.ends, self.reads, self.errors = False, 0, []
        self.start()

    def run(self):
        while not self.ends:
            for name, body in self.expected.items():
                if self.ends:
                    return
                try:
                    with open(self.mount / name, "rb", buffering=0) as file:
                        if self.drops_pages:
                            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                        if file.read(len(body) + 1) != body:
                            self.errors.append(f"{name}: wrong bytes")
                except OSError as error:
                    self.errors.append(f"{name}: {error}")
                self.reads += 1

    def stop(self):
        self.ends = True
        self.join(120)
        return self.reads, self.errors


class ScriptedS3:
    def start(self):
        self.process = subprocess.Popen([PROGRAM], env=without_settings(os.environ), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(30):
                raise AssertionError("the scripted S3 is not ready within 30 s")
        self.endpoint = re.search(r"endpoint=(\S+)", self.process.stdout.readline())[1]
        # No instance of EC2 is asked for what the tests set themselves.
        self.env = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
                    **KEYS}
        return self

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.endpoint.split("//")[1], timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            data = answer.read()
            if answer.status >= 300:
                raise AssertionError(f"{method} {path} was answered {answer.status}")
            return data
        finally:
            connection.close()

    def put(self, bucket, key, body, **headers):
        """Headers as x_amz_storage_class="GLACIER"."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.ask("PUT", f"/{bucket}/{urllib.parse.quote(key)}", body, named)

    def put_many(self, bucket, prefix, count, body):
        """{prefix}{number % 200:03}/f{number:06} for each number below `count`."""
        self.ask("PUT", f"/-/many?bucket={bucket}&prefix={prefix}&count={count}", body)

    def delete_many(self, bucket, prefix, count):
        """What put_many() made."""
        self.ask("DELETE", f"/-/many?bucket={bucket}&prefix={prefix}&count={count}")

    def put_made(self, bucket, key, size):
        """An object of any size; made_bytes() says what is in it."""
        self.ask("PUT", f"/-/made?bucket={bucket}&key={urllib.parse.quote(key)}&bytes={size}")

    def keep_versions(self, bucket):
        self.ask("PUT", f"/-/versions?bucket={bucket}")

    def delete(self, bucket, key):
        self.ask("DELETE", f"/{bucket}/{urllib.parse.quote(key)}")

    def script(self, *rules, **settings):
        """From now on these rules hold, and no others; every count begins anew."""
        self.ask("PUT", "/-/script", json.dumps({"rules": rules, **settings}))

    def counts(self):
        return json.loads(self.ask("GET", "/-/counts"))

    def requests(self, op):
        return self.counts()["requests"].get(op, 0)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


def made_bytes(begin, count):
    """What an object of put_made() has there: lines of 16 bytes, each its own number."""
    lines = b"".join(b"%015x\n" % line for line in range(begin // 16, -(-(begin + count) // 16)))
    return lines[begin % 16:begin % 16 + count]


class ScriptedS3Test(E2eTest):
    """One scripted S3 and one folder for each class, one cluster for each test."""

    NODES = ("n1", "n2")
    NODE_OPTIONS = ("--s3-first-byte-timeout", "1s", "--s3-stall-timeout", "1s")

    @classmethod
    def setUpClass(cls):
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="forebay-s3-"))
        cls.addClassCleanup(remove, cls.home)
        # In the place of the real one.
        cls.s3 = cls.rgw = ScriptedS3().start()
        cls.addClassCleanup(cls.s3.stop)

    def setUp(self):
        super().setUp()
        self.s3.script()

    def put(self, objects, prefix="", **headers):
        for key, body in objects.items():
            self.s3.put(self.bucket, prefix + key, body, **headers)

    def start(self, nodes=None, cache=None, node_options=None):
        super().start(nodes, cache, self.NODE_OPTIONS if node_options is None else node_options)

    def gets(self):
        return self.s3.requests("GET")

    def json_of(self, *words):
        """Of a verb whose exit code is not the point."""
        return json.loads(self.cluster.cli("-o", "json", *words, check=False).stdout)

    def retries(self, reason):
        return sum(value for node in self.cluster.nodes.values() for (name, labels), value in node.metrics().items()
                   if name == "forebay_s3_retries_total" and reason in labels)

    def errors_of(self, mount):
        return (mount / ".forebay" / "errors").read_text()

    def assert_all_made(self):
        """Each rule made its fault: otherwise the test proves nothing."""
        for rule in self.s3.counts()["rules"]:
            self.assertGreater(rule["made"], 0, rule)
