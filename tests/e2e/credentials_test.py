"""Credentials that expire and rotate, against a real S3 with a real STS (Ceph RGW): roles, session tokens, a container
endpoint, a credential process. Nobody but the coordinator and the nodes has any."""

import http.server
import json
import os
import threading

from e2e import E2eTest, eventually, main, read_all
from s3_rights import Rights

EVERYTHING = {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}


class ContainerEndpoint:
    """What ECS and EKS give their containers: credentials over HTTP, for who has the token."""

    def __init__(self, token):
        self.answer, self.token, self.asked = {}, token, 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                allowed = self.headers.get("Authorization") == outer.token
                body = json.dumps(outer.answer).encode() if allowed else b"{}"
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/credentials"

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Credentials(E2eTest):
    NODES = ("n1",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = {"aws_access_key_id": cls.rgw.env["AWS_ACCESS_KEY_ID"],
                    "aws_secret_access_key": cls.rgw.env["AWS_SECRET_ACCESS_KEY"]}
        cls.rights = Rights(cls.rgw.env)
        cls.role = cls.rights.role(EVERYTHING)

    def servers_have(self, **environment):
        """The coordinator and the nodes have this and the endpoint, and no keys in their environment."""
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self.cluster.server_env.pop(name)
        self.cluster.server_env.update({"AWS_EC2_METADATA_DISABLED": "true",
                                        "AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "credentials"),
                                        "AWS_CONFIG_FILE": str(self.folder / "config"), **environment})

    def config(self, text):
        temporary = self.folder / "config.new"
        temporary.write_text(text)
        os.replace(temporary, self.folder / "config")

    def session(self):
        """Keys of the role, as STS hands them out."""
        answer = self.rights.session(self.role)
        return {"AccessKeyId": answer["AccessKeyId"], "SecretAccessKey": answer["SecretAccessKey"],
                "Token": answer["SessionToken"], "Expiration": answer["Expiration"].strftime("%Y-%m-%dT%H:%M:%SZ")}

    def reads_all(self, files):
        self.start()
        self.link("data", "d/")
        self.assertEqual(read_all(self.cluster.mount("data", "m")), sum(map(len, files.values())))
        logs = "".join(path.read_text() for path in self.folder.glob("*.log"))
        self.assertNotIn(self.keys["aws_secret_access_key"], logs)

    def objects(self):
        files = {f"d/{i}": os.urandom(1000 + i) for i in range(20)}
        self.put(files)
        return files

    def test_a_role_of_a_profile_lists_and_reads(self):
        files = self.objects()
        self.config(f"[profile base]\naws_access_key_id = {self.keys['aws_access_key_id']}\n"
                    f"aws_secret_access_key = {self.keys['aws_secret_access_key']}\n"
                    f"[default]\nrole_arn = {self.role}\nsource_profile = base\n")
        self.servers_have()
        self.reads_all(files)

    def test_session_tokens_of_the_environment(self):
        files = self.objects()
        keys = self.session()
        self.servers_have(AWS_ACCESS_KEY_ID=keys["AccessKeyId"], AWS_SECRET_ACCESS_KEY=keys["SecretAccessKey"],
                          AWS_SESSION_TOKEN=keys["Token"])
        self.reads_all(files)

    def test_a_credential_process(self):
        files = self.objects()
        keys = self.session()
        answer = {"Version": 1, "AccessKeyId": keys["AccessKeyId"], "SecretAccessKey": keys["SecretAccessKey"],
                  "SessionToken": keys["Token"], "Expiration": keys["Expiration"]}
        (self.folder / "answer.json").write_text(json.dumps(answer))
        self.config(f"[default]\ncredential_process = /bin/cat '{self.folder}/answer.json'\n")
        self.servers_have()
        self.reads_all(files)

    def test_a_container_endpoint_is_asked_once_by_each(self):
        files = self.objects()
        container = ContainerEndpoint("pod-token")
        self.addCleanup(container.stop)
        (self.folder / "token").write_text("pod-token\n")
        container.answer = self.session()
        self.servers_have(AWS_CONTAINER_CREDENTIALS_FULL_URI=container.url,
                          AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(self.folder / "token"))
        self.reads_all(files)
        # Each of the two asked once, however many requests it made.
        self.assertEqual(container.asked, 2)

    def test_a_refused_role_says_who_asked_whom(self):
        self.objects()
        self.config(f"[profile base]\naws_access_key_id = {self.keys['aws_access_key_id']}\n"
                    f"aws_secret_access_key = {self.keys['aws_secret_access_key']}\n"
                    "[default]\nrole_arn = arn:aws:iam:::role/nobody\nsource_profile = base\n")
        self.servers_have()
        self.start()
        result = self.cluster.cli("link", f"s3://{self.bucket}/d/", check=False)
        self.assertNotEqual(result.returncode, 0)
        for words in ("arn:aws:iam:::role/nobody", self.keys["aws_access_key_id"], "profile 'base'", "us-east-1",
                      self.rgw.env["AWS_ENDPOINT_URL"]):
            self.assertIn(words, result.stderr)
        self.assertNotIn(self.keys["aws_secret_access_key"], result.stderr)

    def test_a_mended_profile_is_used_without_a_restart(self):
        files = self.objects()
        self.config("[default]\nregion = us-east-1\n")
        self.servers_have()
        self.start()
        refused = self.cluster.cli("link", f"s3://{self.bucket}/d/", check=False)
        self.assertIn("no S3 credentials found", refused.stderr)
        self.config(f"[default]\nrole_arn = {self.role}\nsource_profile = base\n"
                    f"[profile base]\naws_access_key_id = {self.keys['aws_access_key_id']}\n"
                    f"aws_secret_access_key = {self.keys['aws_secret_access_key']}\n")
        eventually(lambda: self.cluster.cli("link", f"s3://{self.bucket}/d/", "--as", "data", check=False)
                   .returncode == 0, "the mended profile")
        self.assertEqual(read_all(self.cluster.mount("data", "m")), sum(map(len, files.values())))


if __name__ == "__main__":
    main()
