#!/usr/bin/python3
"""The way to S3: TLS with certificates of one's own, a proxy, keys of a web identity. Coordinator and nodes go the same
way, and a signature goes nowhere else."""

import http.server
import os
import socket
import ssl
import subprocess
import threading
import urllib.parse

import scripted_s3
from e2e import main, read_all

HOST = "s3.forebay.test"  # which no name server knows


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Listener:
    """Hands each connection to serve() in a thread of its own."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.open, self.threads = [], []
        self.acceptor = threading.Thread(target=self.accept)
        self.acceptor.start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.open.append(connection)
            thread = threading.Thread(target=self.serve, args=(connection,))
            self.threads.append(thread)
            thread.start()

    def join_ends(self, one, other):
        back = threading.Thread(target=pump, args=(other, one))
        back.start()
        pump(one, other)
        back.join()
        one.close()
        other.close()

    def stop(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.acceptor.join()
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join()


class TlsFront(Listener):
    """TLS in front of the scripted S3."""

    def __init__(self, certificate, key, port):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.behind, self.served = port, 0
        super().__init__()

    def serve(self, connection):
        try:
            inner = self.context.wrap_socket(connection, server_side=True)
        except OSError:
            return
        self.open.append(inner)
        self.served += 1
        self.join_ends(inner, socket.create_connection(("127.0.0.1", self.behind)))


class Proxy(Listener):
    """CONNECT alone; `places` says where names lead."""

    def __init__(self, places):
        self.places, self.asked = places, []
        super().__init__()

    def serve(self, connection):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            part = connection.recv(4096)
            if not part:
                connection.close()
                return
            head += part
        method, target, _ = head.split(b"\r\n")[0].decode().split()
        self.asked.append((method, target, head.decode()))
        if method != "CONNECT" or target not in self.places:
            connection.sendall(b"HTTP/1.1 502 Unknown\r\nContent-Length: 0\r\n\r\n")
            connection.close()
            return
        onward = socket.create_connection(("127.0.0.1", self.places[target]))
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        self.join_ends(connection, onward)


class Sts:
    """Gives keys to whoever brings the token."""

    def __init__(self, token, key_id):
        self.token, self.key_id, self.asked = token, key_id, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                outer.asked.append({name: values[0] for name, values in form.items()})
                good = form.get("WebIdentityToken") == [outer.token]
                body = (f"<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
                        f"<AccessKeyId>{outer.key_id}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                        f"<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
                        f"</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>" if good else
                        "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>no</Message></Error>"
                        "</ErrorResponse>").encode()
                self.send_response(200 if good else 400)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class S3Endpoint(scripted_s3.ScriptedS3Test):
    NODES = ("n1",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.certificate, cls.key = cls.authority("ca")

    @classmethod
    def authority(cls, name):
        """A certificate that vouches for itself, and its key."""
        certificate, key = cls.home / f"{name}.pem", cls.home / f"{name}-key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "1", "-subj", f"/CN=forebay-test-{name}", "-addext",
                        f"subjectAltName=DNS:{HOST},IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        return certificate, key

    def front(self, certificate=None, key=None):
        front = TlsFront(certificate or self.certificate, key or self.key, int(self.s3.endpoint.rsplit(":", 1)[1]))
        self.addCleanup(front.stop)
        return front

    def profiles(self, **profiles):
        """The servers' AWS files have these and no others: {profile: (front, ca_bundle)}."""
        for name in (*scripted_s3.KEYS, "AWS_ENDPOINT_URL"):
            self.cluster.server_env.pop(name, None)
        config = self.folder / "aws-config"
        (self.folder / "aws-config.new").write_text("".join(
            f"[profile {name}]\naws_access_key_id = AKTEST\naws_secret_access_key = none-looks\n"
            f"endpoint_url = https://127.0.0.1:{front.port}\nca_bundle = {bundle}\n"
            for name, (front, bundle) in profiles.items()))
        os.replace(self.folder / "aws-config.new", config)
        self.cluster.server_env.update(AWS_CONFIG_FILE=str(config))

    def objects(self):
        files = {f"d/{i}": os.urandom(1000 + i) for i in range(20)}
        self.put(files)
        return files

    def reads_all(self, files):
        self.start()
        self.link("data", "d/")
        self.assertEqual(read_all(self.cluster.mount("data", "m")), sum(map(len, files.values())))

    def test_a_certificate_of_ones_own_is_trusted_by_aws_ca_bundle(self):
        files, front = self.objects(), self.front()
        self.cluster.server_env.update(AWS_ENDPOINT_URL=f"https://127.0.0.1:{front.port}",
                                       AWS_CA_BUNDLE=str(self.certificate))
        self.reads_all(files)
        self.assertGreater(front.served, 0)

    def test_a_certificate_that_nobody_vouches_for_is_refused_and_learns_nothing(self):
        self.objects()
        front = self.front()
        self.cluster.server_env.update(AWS_ENDPOINT_URL=f"https://127.0.0.1:{front.port}")
        self.start()
        self.s3.script()
        refused = self.cluster.cli("link", f"s3://{self.bucket}/d/", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("certificate is not trusted", refused.stderr)
        self.assertIn("AWS_CA_BUNDLE", refused.stderr)
        self.assertEqual(self.s3.counts()["requests"], {})

    def test_a_certificate_of_another_host_is_refused(self):
        self.objects()
        front = self.front()
        self.cluster.server_env.update(AWS_ENDPOINT_URL=f"https://localhost:{front.port}",
                                       AWS_CA_BUNDLE=str(self.certificate))
        self.start()
        self.s3.script()
        refused = self.cluster.cli("link", f"s3://{self.bucket}/d/", check=False)
        self.assertIn("certificate is not trusted", refused.stderr)
        self.assertEqual(self.s3.counts()["requests"], {})

    def test_each_link_trusts_the_ca_bundle_of_its_profile(self):
        files = self.objects()
        other, other_key = self.authority("other")
        here, there = self.front(), self.front(other, other_key)
        stores = {"here": (here, self.certificate), "there": (there, other)}
        # The first store again, and what its links must not do: trust what another link trusts, though a connection
        # that this one made stands.
        wrong = {"crossed": (here, other), "lost": (here, self.folder / "no-such.pem")}
        self.profiles(**stores, **wrong)
        self.start()
        for name in stores:
            self.link(name, "d/", "--profile", name)
            self.assertEqual(read_all(self.cluster.mount(name, f"m-{name}")), sum(map(len, files.values())))
        self.assertGreater(min(here.served, there.served), 0)

        def refused(profile):
            said = self.cluster.cli("link", f"s3://{self.bucket}/d/", "--as", "no", "--profile", profile, check=False)
            self.assertNotEqual(said.returncode, 0)
            self.assertIn(f"ca_bundle of profile '{profile}'", said.stderr)
            return said.stderr

        self.assertIn("certificate is not trusted", refused("crossed"))
        self.assertIn(str(self.folder / "no-such.pem"), refused("lost"))
        # Who corrects the file need not wait.
        self.profiles(**stores, crossed=(here, self.certificate))
        self.link("mended", "d/", "--profile", "crossed")
        self.assertEqual(read_all(self.cluster.mount("mended", "m-mended")), sum(map(len, files.values())))

    def test_a_proxy_leads_to_s3_and_learns_no_signature(self):
        files, front = self.objects(), self.front()
        proxy = Proxy({f"{HOST}:443": front.port})
        self.addCleanup(proxy.stop)
        self.cluster.server_env.update(AWS_ENDPOINT_URL=f"https://{HOST}", AWS_CA_BUNDLE=str(self.certificate),
                                       HTTPS_PROXY=f"http://127.0.0.1:{proxy.port}")
        self.reads_all(files)
        self.assertGreater(len(proxy.asked), 0)
        for method, target, head in proxy.asked:
            self.assertEqual((method, target), ("CONNECT", f"{HOST}:443"))
            self.assertNotIn("authorization", head.lower())

    def test_a_web_identity_reads_with_keys_of_its_role(self):
        files = self.objects()
        sts = Sts("pod-token", "ASIAWEB")
        self.addCleanup(sts.stop)
        (self.folder / "token").write_text("pod-token\n")
        for name in scripted_s3.KEYS:
            self.cluster.server_env.pop(name)
        self.cluster.server_env.update(AWS_WEB_IDENTITY_TOKEN_FILE=str(self.folder / "token"),
                                       AWS_ROLE_ARN="arn:aws:iam::123456789012:role/trainer",
                                       AWS_ROLE_SESSION_NAME="e2e", AWS_ENDPOINT_URL_STS=sts.url)
        self.s3.script(key_ids=["ASIAWEB"])
        self.reads_all(files)
        self.assertEqual(self.s3.counts()["expired"], 0)
        # The coordinator and the node, once each.
        self.assertEqual(len(sts.asked), 2)
        for asked in sts.asked:
            self.assertEqual(asked["Action"], "AssumeRoleWithWebIdentity")
            self.assertEqual(asked["RoleArn"], "arn:aws:iam::123456789012:role/trainer")


if __name__ == "__main__":
    main()
