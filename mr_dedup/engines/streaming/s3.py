"""Files in S3, every failure of it as one line.

Importing this needs boto3, which the extra ``emr`` brings.
"""

from __future__ import annotations

import contextlib
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions as aws
from mrjob.fs.s3 import S3Filesystem

from mr_dedup.errors import MrDedupError

_URI = re.compile(r"s3[an]?://(?P<bucket>[^/]+)(?:/(?P<key>.*))?", re.S)

_NO_CREDENTIALS = (
    aws.NoCredentialsError,
    aws.PartialCredentialsError,
    aws.CredentialRetrievalError,
    aws.NoAuthTokenError,
    aws.ProfileNotFound,
    aws.TokenRetrievalError,
    aws.SSOError,
)


@contextlib.contextmanager
def aws_errors(uri: str) -> Iterator[None]:
    """Raise what goes wrong with Amazon's services in the block as MrDedupError, naming ``uri``.

    Messages never contain credentials, only their kind.
    """
    try:
        yield
    except _NO_CREDENTIALS as error:
        reason = str(error).rstrip(".")
        raise MrDedupError(
            f"{uri}: no credentials for AWS: {reason}; they come from AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, from AWS_PROFILE, or from the role of this machine"
        ) from error
    except aws.ClientError as error:
        raise MrDedupError(f"{uri}: {_client_reason(error)}") from error
    except aws.BotoCoreError as error:
        raise MrDedupError(f"{uri}: {' '.join(str(error).split())}") from error


def _client_reason(error: aws.ClientError) -> str:
    said = error.response.get("Error", {})
    code = str(said.get("Code", "error"))
    if code == "NoSuchBucket":
        return f"there is no bucket {said.get('BucketName', '')}".rstrip()
    if code in ("NoSuchKey", "404"):
        return "no such file in S3"
    message = " ".join(str(said.get("Message", "")).split())
    return f"{message or 'refused'} ({code}, {error.operation_name})"


class S3Files(S3Filesystem):  # type: ignore[misc]
    """mrjob's S3 file system, with errors for users, and one connection instead of one a call.

    Methods raise MrDedupError naming the URI for whatever S3 refuses.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._clients: dict[str | None, Any] = {}

    def make_s3_client(self, region_name: str | None = None) -> Any:
        """Return the client of a region."""
        if region_name not in self._clients:
            self._clients[region_name] = super().make_s3_client(region_name)
        return self._clients[region_name]

    def get_bucket(self, bucket_name: str) -> Any:
        """Return a bucket; S3 itself redirects to its region."""
        return self._resource.Bucket(bucket_name)

    def _get_s3_key(self, uri: str) -> Any:
        bucket, key = split_uri(uri)
        return self.get_bucket(bucket).Object(key)

    @property
    def _resource(self) -> Any:
        if "resource" not in self._clients:
            self._clients["resource"] = self.make_s3_resource()
        return self._clients["resource"]

    def below(self, folder: str) -> list[str]:
        """Return the URIs of all that is in ``folder``, by path, however it is called."""
        bucket, key = split_uri(folder)
        prefix = key.rstrip("/") + "/"
        with aws_errors(folder):
            entries = self.get_bucket(bucket).objects.filter(Prefix=prefix)
            return [f"s3://{bucket}/{entry.key}" for entry in entries]

    def exists(self, uri: str) -> bool:
        """Return whether there is a file ``uri``, or a directory with anything in it."""
        bucket, key = split_uri(uri)
        with aws_errors(uri):
            return any(True for _ in self._entries(bucket, key.rstrip("/")))

    def _entries(self, bucket: str, key: str) -> Iterator[Any]:
        """Yield the file ``key``, and all in the directory ``key``; not what else begins so."""
        objects = self.get_bucket(bucket).objects
        yield from (entry for entry in objects.filter(Prefix=key).limit(1) if entry.key == key)
        yield from objects.filter(Prefix=f"{key}/")

    def mkdir(self, uri: str) -> None:
        """Make the bucket of ``uri`` unless there is one; S3 has no directories."""
        with aws_errors(uri):
            super().mkdir(uri)

    def put(self, local: str, uri: str) -> None:
        """Copy a local file, as ``uri``."""
        with aws_errors(uri):
            super().put(local, uri)

    def get(self, uri: str, local: Path) -> None:
        """Copy a file to ``local``."""
        with aws_errors(uri):
            self._get_s3_key(uri).download_file(str(local))

    def read(self, uri: str) -> str:
        """Return the text of a small file, unpacked if its name ends in .gz."""
        with aws_errors(uri):
            content: bytes = self._get_s3_key(uri).get()["Body"].read()
        return (gzip.decompress(content) if uri.endswith(".gz") else content).decode(
            "utf-8", "replace"
        )

    def copy(self, uri: str, new: str) -> None:
        """Copy a file within S3."""
        bucket, key = split_uri(uri)
        with aws_errors(new):
            self._get_s3_key(new).copy({"Bucket": bucket, "Key": key})

    def remove_file(self, uri: str) -> None:
        """Remove a file, if there is one."""
        with aws_errors(uri):
            self._get_s3_key(uri).delete()

    def remove(self, folder: str) -> None:
        """Remove a directory with all in it, if there is one."""
        bucket, key = split_uri(folder)
        with aws_errors(folder):
            self.get_bucket(bucket).objects.filter(Prefix=key.rstrip("/") + "/").delete()


def split_uri(uri: str) -> tuple[str, str]:
    """Return bucket and key of ``uri``; raises MrDedupError if it is not one of S3."""
    match = _URI.fullmatch(uri)
    if match is None:
        raise MrDedupError(f"{uri}: expected a URI such as s3://bucket/folder")
    return match["bucket"], match["key"] or ""


def default_region() -> str | None:
    """Return the region that the environment or the profile names."""
    with aws_errors("AWS"):
        region: str | None = boto3.session.Session().region_name
    return region
