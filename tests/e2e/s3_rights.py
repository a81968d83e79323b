"""Roles of RGW that have what ops/iam-policy.json gives, or less of it."""

import json
import pathlib

import boto3

POLICY = pathlib.Path(__file__).resolve().parents[2] / "ops" / "iam-policy.json"


def compact(document):
    """Without blanks: boto sends them as '+', which RGW takes for itself."""
    return json.dumps(document, separators=(",", ":"))


class Rights:
    """Makes roles at an RGW and hands out their keys."""

    def __init__(self, env):
        place = {"endpoint_url": env["AWS_ENDPOINT_URL"], "region_name": "us-east-1",
                 "aws_access_key_id": env["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": env["AWS_SECRET_ACCESS_KEY"]}
        self.iam, self.sts, self.roles = boto3.client("iam", **place), boto3.client("sts", **place), 0

    def role(self, *statements):
        """The role's ARN."""
        self.roles += 1
        trust = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/forebay"]}, "Action": ["sts:AssumeRole"]}]}
        name = f"role{self.roles}"
        arn = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=compact(trust))["Role"]["Arn"]
        document = {"Version": "2012-10-17", "Statement": list(statements)}
        self.iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=compact(document))
        return arn

    def session(self, role):
        """What STS says."""
        return self.sts.assume_role(RoleArn=role, RoleSessionName="e2e", DurationSeconds=900)["Credentials"]

    def keys(self, role):
        """A session of it as environment."""
        keys = self.session(role)
        return {"AWS_ACCESS_KEY_ID": keys["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
                "AWS_SESSION_TOKEN": keys["SessionToken"]}

    @staticmethod
    def shipped(bucket, prefix, without=()):
        """The statements of ops/iam-policy.json for this bucket and prefix, but those whose action is in `without`."""
        text = POLICY.read_text().replace("MY-BUCKET", bucket).replace("MY-PREFIX", prefix)
        return [statement for statement in json.loads(text)["Statement"] if statement["Action"] not in without]
