"""The server as a process: it starts, is stopped, ends in order; usage errors are one line."""

import contextlib
import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from mr_dedup.cli.main import main
from mr_dedup.errors import MrDedupError
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.http_client import HttpIndex
from mr_dedup.index.http_token import VARIABLE
from tests.server.running import TOKEN, without_token


@pytest.fixture
def folder(tmp_path):
    HammingIndex.create(tmp_path / "index").close()
    return tmp_path / "index"


@contextlib.contextmanager
def served(folder, *options, **variables):
    """A server process, and its URL."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from mr_dedup.cli.main import main; raise SystemExit(main())",
         "serve", str(folder), "--port", "0", *options],
        stderr=subprocess.PIPE, text=True, env=without_token() | variables,
    )  # fmt: skip
    try:
        line = process.stderr.readline()
        assert f"serving {folder} at http://" in line, line
        yield process, line.strip().rpartition(" at ")[2]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_serves_until_it_is_stopped(folder):
    with served(folder) as (process, url):
        with HttpIndex(url) as index:
            assert index.add(np.array([5], np.uint64), ["a"]) == 1
        port = int(url.rpartition(":")[2])
        body = b'{"documents":[{"id":"b","fingerprint":4}]}'
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body))  # fmt: skip
            sock.sendall(body[:9])
            # has started: another request is answered meanwhile
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
            process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 60
            with pytest.raises(OSError):
                while time.monotonic() < deadline:
                    socket.create_connection(("127.0.0.1", port)).close()
            sock.sendall(body[9:])
            assert b" 200 " in sock.makefile("rb").readline()
        connection.close()
        said = process.communicate(timeout=60)[1]
        assert (process.returncode, said) == (0, f"mr-dedup: stopped; {folder} is closed\n")
    with HammingIndex.open(folder) as index:
        assert sorted(index.query(np.array([4], np.uint64)).ids) == ["a", "b"]


def test_it_serves_without_a_temporary_folder(folder):
    code = """
import tempfile
tempfile._candidate_tempdir_list = lambda: ["/proc"]
from mr_dedup.cli.main import main
raise SystemExit(main())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", str(folder), "--port", "0"],
        stderr=subprocess.PIPE, text=True, env=without_token(),
    )  # fmt: skip
    try:
        line = process.stderr.readline()
        assert line.startswith(f"mr-dedup: serving {folder} at http://")
        with HttpIndex(line.strip().rpartition(" at ")[2]) as index:
            assert index.add(np.array([5], np.uint64), ["a"]) == 1
        process.terminate()
        said = process.communicate(timeout=60)[1]
        assert (process.returncode, said) == (0, f"mr-dedup: stopped; {folder} is closed\n")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("source", ["file", "environment", "file before environment"])
def test_other_addresses_need_a_token(source, folder, tmp_path):
    options, variables = ["--host", "0.0.0.0"], {}
    if source == "environment":
        variables = {VARIABLE: TOKEN}
    else:
        (tmp_path / "token").write_text(f"{TOKEN}\n")
        options += ["--token-file", str(tmp_path / "token")]
    other = "a-token-of-another-server"
    if source == "file before environment":
        variables = {VARIABLE: other}
    with served(folder, *options, **variables) as (process, url):
        url = url.replace("0.0.0.0", "127.0.0.1")
        with HttpIndex(url, token=TOKEN) as index:
            assert len(index) == 0
        for token in (None, other):
            with pytest.raises(MrDedupError, match="needs the bearer token"):
                HttpIndex(url, token=token)
        process.send_signal(signal.SIGINT)
        assert TOKEN not in process.communicate(timeout=60)[1]
        assert process.returncode == 0


def test_usage_errors_are_one_line(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("MR_DEDUP_TOKEN", raising=False)
    (tmp_path / "short").write_text("secret")
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf" + TOKEN.encode())
    with socket.create_server(("127.0.0.1", 0)) as taken, HammingIndex.open(folder):
        port = str(taken.getsockname()[1])
        for options, reason in (
            (["--port", port], "Address already in use"),
            (["--port", "0"], "has it open for writing"),
            (["--port", "0", "--host", "0.0.0.0"], "needs a token; give --token-file or MR_DEDUP"),
            (["--port", "0", "--host", "no.invalid"], "no.invalid:0: not an address"),
            (["--token-file", str(tmp_path / "none")], "cannot be read: No such file"),
            (["--token-file", str(tmp_path / "short")], "short: not a token"),
            # a byte order mark, as some editors write it
            (["--token-file", str(tmp_path / "marked")], "marked: not a token"),
            (["--max-body", "999999TB"], "max_body_bytes must be"),
        ):
            assert main(["serve", str(folder), *options]) == 2
            said = capsys.readouterr().err
            assert reason in said
            assert said.count("\n") == 1
            assert "secret" not in said

    def unsupported(*arguments):
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", unsupported)
        assert main(["serve", str(folder), "--port", "0", "--host", "::1"]) == 2
    assert capsys.readouterr().err == (
        "mr-dedup: error: ::1:0: cannot listen: Address family not supported by protocol\n"
    )
    assert main(["serve", str(tmp_path / "none"), "--port", "0"]) == 2
    assert "none: not a directory" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["serve", str(tmp_path / "empty"), "--port", "0"]) == 2
    assert "mr-dedup index create" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["serve", str(folder), "--port", "65536"])
    assert "is not a port" in capsys.readouterr().err
