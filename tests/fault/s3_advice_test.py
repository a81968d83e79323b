#!/usr/bin/python3
"""Everything about a bucket that a user may get wrong when linking it: one sentence says what was tried, what S3 said and
what to do, no link comes of it, and doing what it says helps."""

import scripted_s3
from e2e import main, read_all

OWNER, OTHER = "123456789012", "999999999999"


class S3Advice(scripted_s3.ScriptedS3Test):
    NODES = ("n1",)

    def setUp(self):
        super().setUp()
        self.files = {"d/a": b"a" * 1000, "d/b": b"b" * 2000}
        self.put(self.files)
        self.start()

    def refused(self, *options, says=()):
        where = f"s3://{self.bucket}/d/"
        result = self.cluster.cli("link", where, "--as", "data", *options, check=False, timeout=60)
        self.assertEqual(result.returncode, 1, (result.stdout, result.stderr))
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        for words in (f"LIST of {where}", *says):
            self.assertIn(words, result.stderr)
        self.assertNotIn(scripted_s3.KEYS["AWS_SECRET_ACCESS_KEY"], result.stderr)
        self.assertEqual(self.cluster.json("links")["links"], [], "nothing came of it")

    def helps(self, *options):
        self.link("data", "d/", *options)
        self.assertEqual(read_all(self.cluster.mount("data", "m1")), sum(map(len, self.files.values())))

    def test_a_bucket_in_another_region(self):
        self.s3.script(region="eu-central-1")
        self.refused(says=["S3 answered 400 AuthorizationHeaderMalformed",
                           "the bucket is in region eu-central-1: link it with --region eu-central-1, not us-east-1"])
        self.helps("--region", "eu-central-1")

    def test_a_bucket_of_another_account(self):
        self.s3.script(owner=OWNER)
        self.refused("--expected-bucket-owner", OTHER,
                     says=["403 AccessDenied", scripted_s3.KEYS["AWS_ACCESS_KEY_ID"], f"belongs to account {OTHER}"])
        self.helps("--expected-bucket-owner", OWNER)

    def test_a_bucket_whose_requesters_pay(self):
        self.s3.script(requester_pays=True)
        self.refused(says=["403 AccessDenied", "they allow s3:ListBucket", "link with --requester-pays"])
        self.helps("--requester-pays")

    def test_a_bucket_that_lets_no_guests_in(self):
        self.s3.script(no_guests=True)
        self.refused("--no-sign-request", says=["403 AccessDenied", "an anonymous request", "without --no-sign-request"])
        self.helps()

    def test_a_bucket_that_is_not_there(self):
        missing = self.cluster.cli("link", "s3://no-such-bucket/d/", check=False)
        for words in ("LIST of s3://no-such-bucket/d/", "404 NoSuchBucket", "no bucket 'no-such-bucket'", "check its name"):
            self.assertIn(words, missing.stderr)
        self.assertEqual(missing.returncode, 1)

    def test_endpoints_where_no_s3_is(self):
        for endpoint, *advice in (("http://127.0.0.1:9", "check the endpoint", "firewall and proxy"),
                                  ("http://no-such-host.invalid", "check the name of the endpoint", "name service")):
            self.refused("--endpoint-url", endpoint, says=[endpoint, *advice])
        self.helps("--endpoint-url", self.s3.endpoint)

    def test_an_endpoint_that_is_no_s3(self):
        self.s3.script({"do": "status", "status": 404, "code": "", "op": "LIST"})
        self.refused(says=["404", "is that an S3 endpoint?"])
        self.assert_all_made()
        self.s3.script()
        self.helps()


if __name__ == "__main__":
    main()
