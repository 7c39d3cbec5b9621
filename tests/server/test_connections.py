"""What any client can do to a server process: it answers others meanwhile."""

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
    """Connections over which ``sent`` was sent, and nothing more."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            opened.append(stack.enter_context(sock))
            sock.sendall(sent)
        yield opened


def is_closed(sock):
    """Whether the server closed a connection."""
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
    """64 descriptors, 120 idle connections, and changes that make and merge segments."""
    with serving(folder, descriptors=64) as server:
        keep = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with sockets(server, 120) as idle:
            for start in range(0, 30 * 4096, 4096):
                message = json.dumps(documents(range(start, start + 4096)))
                keep.request("PUT", "/v1/documents", message, JSON)
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
    """Beyond it the one that has waited longest is closed, and requests are answered meanwhile."""
    patient = ("--max-connections", 20, "--max-header-seconds", 600, "--max-seconds", 600)
    with serving(folder, *patient) as server, sockets(server, 10, sent) as first:
        assert call(server, "GET", "/health")[0] == 200
        # one that has waited for less than a second is closed last
        time.sleep(1.5)
        with sockets(server, 10, sent) as later:
            for _ in range(5):
                assert call(server, "POST", "/v1/query", QUERY)[0] == 200
            with sockets(server, 9, sent):
                assert call(server, "GET", "/health")[0] == 200
                wait_until(lambda: sum(map(is_closed, first)) >= 9)
                assert not any(map(is_closed, later))


def test_slow_bodies_give_way_to_other_requests(folder):
    with serving(folder, "--max-calls", 5) as server, sockets(server, 5, SLOW_BODY) as opened:
        # while they are not slow yet, requests are refused, but not /health
        assert call(server, "GET", "/health")[0] == 200
        wait_until(lambda: call(server, "POST", "/v1/query", QUERY)[0] == 200)
        assert is_closed(opened[0])
        assert not is_closed(opened[-1])
        # a body that arrives in the end is answered
        opened[-1].setblocking(True)
        opened[-1].sendall(b'"fingerprints": [7]}'[:19])
        assert opened[-1].recv(100).startswith(b"HTTP/1.1 ")


def test_headers_have_a_deadline(folder):
    sent = (b"", b"GET", b"GET /health HTTP/1.1\r\nHost: x")
    with serving(folder, "--max-header-seconds", 1) as server, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(sockets(server, 1, each))[0] for each in sent]
        # one with a response may be idle for longer
        with sockets(server, 1, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as (answered,):
            wait_until(lambda: all(map(is_closed, opened)))
            answered.setblocking(True)
            assert answered.recv(100).startswith(b"HTTP/1.1 200 ")
            # and then its next header is slow
            assert not is_closed(answered)
            answered.sendall(b"GET ")
            wait_until(lambda: is_closed(answered))


def test_bodies_have_a_deadline_that_bytes_do_not_prolong(folder):
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


def test_responses_have_a_deadline_to_be_read(folder):
    """A response that is not read is dropped, and its connection and its request end."""
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
    """A client that sends all of a body before it reads the response gets it, not a reset."""
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


def test_answered_requests_do_not_give_way_to_others(folder, monkeypatch):
    """Their bodies may still arrive, but they do not count as in progress."""
    began, may_end = threading.Event(), threading.Event()

    def query(service, request):
        began.set()
        assert may_end.wait(60)
        return Queries([])

    monkeypatch.setattr(Service, "query", query)
    limits = Limits(max_calls=1, max_body_bytes=1000, slow_seconds=1e-6)
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
            # in one piece: a body that came later would itself be slow
            content = json.dumps(QUERY).encode()
            whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content
            with sockets(server, 1, whole) as (sock,):
                assert b" 503 " in sock.makefile("rb").readline()
        finally:
            may_end.set()
        assert first.result()[0] == 200


def test_invalid_requests_are_logged_once_a_second(folder):
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


@pytest.mark.parametrize(
    ("sent", "responses"),
    [
        (HEAD + b"Content-Length: 21\r\n\r\n" + json.dumps(QUERY).encode(), 1),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3, 3),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea", 1),
        (b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n", 1),
        (SLOW_BODY, 0),
        (b"GET /health HT", 0),
    ],
    ids=["one", "pipelined", "half", "old", "half a body", "half a head"],
)
def test_clients_that_close_their_sending_side_get_their_responses(folder, sent, responses):
    with serving(folder) as server, sockets(server, 1, sent) as (sock,):
        sock.shutdown(socket.SHUT_WR)
        got = b"".join(iter(lambda: received(sock), b""))
    assert got.count(b"HTTP/1.1 200 OK\r\n") == responses == got.count(b"HTTP/1.1 ")
