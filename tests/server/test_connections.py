"""What anybody can do to a server, which is a process: it answers others meanwhile."""

import contextlib
import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.http_messages import Queries
from mr_dedup.server import connections
from mr_dedup.server.service import Limits, Service
from tests.server.running import running, serving
from tests.server.test_app import JSON, call, wait_until

HEAD = b"POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SLOW_BODY = HEAD + b"Content-Length: 20\r\n\r\n{"
QUERY = {"fingerprints": [7]}


@pytest.fixture
def folder(tmp_path):
    HammingIndex.create(tmp_path / "index", features=None).close()
    return tmp_path / "index"


@contextlib.contextmanager
def sockets(server, count, sent=b""):
    """Connections over which so much was sent, and nothing more."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            opened.append(stack.enter_context(sock))
            sock.sendall(sent)
        yield opened


def is_closed(sock):
    """Whether the server ended a connection."""
    sock.setblocking(False)
    try:
        return not sock.recv(1 << 16)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def documents(numbers):
    rng = np.random.default_rng(list(numbers))
    values = rng.integers(0, 1 << 63, len(numbers)).tolist()
    return {
        "documents": [
            {"id": f"page {n}", "fingerprint": v} for n, v in zip(numbers, values, strict=True)
        ]
    }


def test_few_descriptors_and_many_connections_refuse_no_change(folder):
    """64 descriptors, 120 idle connections, and changes of which segments are made and merged."""
    with serving(folder, descriptors=64) as server:
        keep = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with sockets(server, 120) as idle:
            for start in range(0, 30 * 4096, 4096):
                told = json.dumps(documents(range(start, start + 4096)))
                keep.request("PUT", "/v1/documents", told, JSON)
                answer = keep.getresponse()
                assert (answer.status, answer.read()) == (200, b'{"new":4096}')
            assert call(server, "GET", "/v1/stats")[2]["documents"] == 30 * 4096
            assert sum(map(is_closed, idle)) >= 60
        keep.close()
        assert call(server, "PUT", "/v1/documents", documents(range(10)))[2]["new"] == 0
    assert server.said == f"mr-dedup: stopped; {folder} is closed\n"
    with HammingIndex.open(folder) as index:
        assert len(index) == 30 * 4096


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", SLOW_BODY], ids=["idle", "head", "body"])
def test_the_limit_of_connections(folder, sent):
    """Beyond it the one that waits longest is closed, and calls are answered meanwhile."""
    patient = ("--max-connections", 20, "--max-header-seconds", 600, "--max-seconds", 600)
    with serving(folder, *patient) as server, sockets(server, 10, sent) as first:
        assert call(server, "GET", "/health")[0] == 200
        # what has waited for less than a second is closed last
        time.sleep(1.5)
        with sockets(server, 10, sent) as later:
            for _ in range(5):
                assert call(server, "POST", "/v1/query", QUERY)[0] == 200
            with sockets(server, 9, sent):
                assert call(server, "GET", "/health")[0] == 200
                wait_until(lambda: sum(map(is_closed, first)) >= 9)
                assert not any(map(is_closed, later))


def test_slow_bodies_give_up_their_calls_to_others(folder):
    with serving(folder, "--max-calls", 5) as server, sockets(server, 5, SLOW_BODY) as opened:
        # as long as they may not be slow but on their way, calls are refused, and /health is not
        assert call(server, "GET", "/health")[0] == 200
        wait_until(lambda: call(server, "POST", "/v1/query", QUERY)[0] == 200)
        assert is_closed(opened[0])
        assert not is_closed(opened[-1])
        # a body that comes in the end is answered
        opened[-1].setblocking(True)
        opened[-1].sendall(b'"fingerprints": [7]}'[:19])
        assert opened[-1].recv(100).startswith(b"HTTP/1.1 ")


def test_headers_have_to_come_in_time(folder):
    sent = (b"", b"GET", b"GET /health HTTP/1.1\r\nHost: x")
    with serving(folder, "--max-header-seconds", 1) as server, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(sockets(server, 1, each))[0] for each in sent]
        # one that was answered may be idle for longer
        with sockets(server, 1, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as (answered,):
            wait_until(lambda: all(map(is_closed, opened)))
            answered.setblocking(True)
            assert answered.recv(100).startswith(b"HTTP/1.1 200 ")
            # and then its next header comes slowly
            assert not is_closed(answered)
            answered.sendall(b"GET ")
            wait_until(lambda: is_closed(answered))


def test_bodies_have_to_come_in_time_and_bytes_do_not_prolong_it(folder):
    with serving(folder, "--max-seconds", 1) as server, sockets(server, 1, SLOW_BODY) as (sock,):

        def dripped():
            with contextlib.suppress(BlockingIOError, ConnectionError):
                sock.setblocking(False)
                answer.append(sock.recv(1000))
                sock.send(b" ")
            return b"" in answer

        answer = []
        wait_until(dripped)
        assert answer[0].startswith(b"HTTP/1.1 408 ")
        assert call(server, "GET", "/health")[0] == 200


def test_answers_have_to_be_taken_in_time(folder):
    """What nobody takes is thrown away, and its connection and its call are free again."""
    with HammingIndex.open(folder) as index:
        index.add(np.full(60_000, 7, np.uint64), [f"{'x' * 500} {n}" for n in range(60_000)])
    with serving(folder, "--max-seconds", 2, "--max-calls", 1) as server:
        body = json.dumps(QUERY).encode()
        sent = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
        with sockets(server, 1, sent) as (sock,):
            wait_until(lambda: call(server, "GET", "/v1/designs")[0] == 503)
            wait_until(lambda: call(server, "GET", "/v1/designs")[0] == 200)
            taken = b"".join(iter(lambda: received(sock), b""))
            assert len(taken) < 30_000_000


def received(sock):
    try:
        return sock.recv(1 << 20)
    except ConnectionError:
        return b""


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
@pytest.mark.parametrize("path", [b"/v1/query", b"/none"])
def test_a_body_beyond_the_limit_gets_its_answer(folder, close, path):
    """Who sends all of a body before it looks at the answer finds it, not a reset."""
    body = b" " * 20_000_000
    head = HEAD.replace(b"/v1/query", path) + close + b"Content-Length: %d\r\n\r\n" % len(body)
    with serving(folder, "--max-body", "1KB") as server:
        for chunk in (1 << 14, len(body)):
            with sockets(server, 1) as (sock,):
                sock.sendall(head)
                for start in range(0, len(body), chunk):
                    sock.sendall(body[start : start + chunk])
                status = b" 413 " if path == b"/v1/query" else b" 404 "
                assert status in sock.makefile("rb").readline()
    assert server.said == f"mr-dedup: stopped; {folder} is closed\n"


def test_the_rest_of_a_body_that_was_refused_delays_no_end(folder):
    sent = HEAD + b"Content-Length: 50000\r\n\r\n{"
    # a connection that stays open as the server ends
    with (
        contextlib.ExitStack() as stack,
        serving(folder, "--max-body", "1KB", "--max-seconds", 600) as server,
    ):
        (sock,) = stack.enter_context(sockets(server, 1, sent))
        assert b" 413 " in sock.makefile("rb").readline()
    assert server.said == f"mr-dedup: stopped; {folder} is closed\n"


def test_calls_that_were_answered_make_no_room_for_others(folder, monkeypatch):
    """Their bodies may still come, but they do not count as calls."""
    began, may_end = threading.Event(), threading.Event()

    def query(service, asked):
        began.set()
        assert may_end.wait(60)
        return Queries([])

    monkeypatch.setattr(Service, "query", query)
    monkeypatch.setattr(connections, "_SLOW_SECONDS", 0)
    limits = Limits(calls=1, body_bytes=1000)
    with (
        HammingIndex.open(folder) as index,
        running(index, limits) as server,
        sockets(server, 3, HEAD + b"Content-Length: 5000\r\n\r\n{") as refused,
        ThreadPoolExecutor(1) as pool,
    ):
        assert all(b" 413 " in sock.makefile("rb").readline() for sock in refused)
        first = pool.submit(call, server, "POST", "/v1/query", QUERY)
        try:
            assert began.wait(60)
            assert call(server, "POST", "/v1/query", QUERY)[0] == 503
        finally:
            may_end.set()
        assert first.result()[0] == 200


def test_what_cannot_be_understood_is_logged_once_a_second(folder):
    with serving(folder) as server:
        for _ in range(300):
            with sockets(server, 1, b"\0\r\n\r\n") as (sock,):
                assert sock.recv(100).startswith(b"HTTP/1.1 400 ")
        assert call(server, "GET", "/health")[0] == 200
    lines = server.said.splitlines()
    assert 0 < sum("Invalid HTTP" in line for line in lines) < 100


def test_too_few_descriptors_for_any_connection(folder):
    with pytest.raises(AssertionError, match="mr-dedup: error: too few open files are allowed: 40"):
        serving(folder, descriptors=40).__enter__()
