"""A server of an index, in a thread of this process or in a process, on a free port."""

import contextlib
import os
import resource
import subprocess
import sys
import threading

from mr_dedup.index.http_token import VARIABLE
from mr_dedup.server.service import Limits, Service
from mr_dedup.server.serving import IndexServer, listening_socket

TOKEN = "a-token-of-the-tests-0123"


def without_token():
    """The environment without a token."""
    return {name: value for name, value in os.environ.items() if name != VARIABLE}


class Running:
    """A server in a thread, from its creation until it is stopped."""

    def __init__(self, index, limits=None, token=None, host="127.0.0.1"):
        self.service = Service(index, limits or Limits())
        # as the command does: to compile at a request may take longer than its timeout
        sock = listening_socket(host, 0, token)
        self.port = sock.getsockname()[1]
        self.url = f"http://{host}:{self.port}"
        self._server = IndexServer(self.service, token, sock)
        self._thread = threading.Thread(target=self._server.serve_until_stopped)
        self._thread.start()

    def stop(self):
        self._server.stop()
        self._thread.join()


@contextlib.contextmanager
def running(index, limits=None, token=None, host="127.0.0.1"):
    server = Running(index, limits, token, host)
    try:
        yield server
    finally:
        server.stop()


SERVE = "from mr_dedup.cli.main import main; raise SystemExit(main())"


class Process:
    """``mr-dedup serve`` in a process: its port, and its messages when it ends."""

    def __init__(self, folder, *options, descriptors=None):
        def limit():
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE, "serve", str(folder), "--port", "0", *map(str, options)],
            stderr=subprocess.PIPE, text=True, env=without_token(), preexec_fn=limit,
        )  # fmt: skip
        self.pid = self._process.pid
        line = self._process.stderr.readline()
        if not line.startswith("mr-dedup: serving "):
            line += self._process.communicate(timeout=120)[1]
        assert line.startswith("mr-dedup: serving "), line
        self.url = line.strip().rpartition(" at ")[2]
        self.port = int(self.url.rpartition(":")[2])

    def stop(self):
        """Stop it; return its messages."""
        if self._process.poll() is None:
            self._process.terminate()
        said = self._process.communicate(timeout=120)[1]
        assert self._process.returncode == 0, said
        return said


@contextlib.contextmanager
def serving(folder, *options, descriptors=None):
    process = Process(folder, *options, descriptors=descriptors)
    try:
        yield process
    finally:
        process.said = process.stop()
