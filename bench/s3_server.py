"""A server of S3 for benchmarks: moto, as a process on this machine.

``python -m bench.s3_server`` prints its URL, and serves until its standard input ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import processes

BUCKET = "crawl"
PACKAGES = ("boto3", "moto", "flask")
"""What the server needs."""

_KEY, _SECRET, _REGION = "key", "secret", "us-east-1"
_URL_SECONDS = 86_400


@dataclass(frozen=True)
class Server:
    """A server with a bucket BUCKET.

    Args:
        url: its root.
        pid: the id of its process.
    """

    url: str
    pid: int

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables by which programs find it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_DEFAULT_REGION": _REGION,
        }

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of its process so far; 0 outside Linux."""
        return processes.cpu_seconds(self.pid)

    def client(self) -> Any:
        """Return a client of boto3."""
        import boto3

        return boto3.client(
            "s3", endpoint_url=self.url, region_name=_REGION,
            aws_access_key_id=_KEY, aws_secret_access_key=_SECRET,
        )  # fmt: skip

    def upload(self, folder: Path) -> list[str]:
        """Upload the files below a directory; return a URL of each that needs no credentials.

        Keys begin with the name of the directory. Each is one request, so that ETags are MD5s.
        """
        client, urls = self.client(), []
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            target = {"Bucket": BUCKET, "Key": path.relative_to(folder.parent).as_posix()}
            with path.open("rb") as body:
                client.put_object(Body=body, **target)
            urls.append(client.generate_presigned_url("get_object", target, _URL_SECONDS))
        return urls


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """Yield a server, which ends with the block."""
    command = [sys.executable, "-m", "bench.s3_server"]
    # leaving the block closes its standard input
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the server of S3 did not start")
        server = Server(url, process.pid)
        server.client().create_bucket(Bucket=BUCKET)
        yield server


def main() -> None:
    """Serve until standard input ends."""
    from moto.server import ThreadedMotoServer

    # otherwise it logs each request
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()
    # its threads wait for connections that clients left open
    os._exit(0)


if __name__ == "__main__":
    main()
