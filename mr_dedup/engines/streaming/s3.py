"""What mrjob asks of Amazon's services, every failure of them as one line.

Importing this needs boto3, which the extra ``emr`` brings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import boto3
import botocore.exceptions as aws
from mrjob.fs.s3 import S3Filesystem

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.writing import put

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
    """mrjob's S3 file system as far as its runner needs one: to make buckets, and to put files."""

    def mkdir(self, uri: str) -> None:
        """Make the bucket of ``uri`` unless there is one; S3 has no directories."""
        with aws_errors(uri):
            super().mkdir(uri)

    def put(self, local: str, uri: str) -> None:
        """Copy a local file, as ``uri``; raises MrDedupError."""
        put(Path(local), uri, overwrite=True)


def default_region() -> str | None:
    """Return the region that the environment or the profile names."""
    with aws_errors("AWS"):
        region: str | None = boto3.session.Session().region_name
    return region
