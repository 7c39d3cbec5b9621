"""Requests and responses: operations, limits, the token, and one line for a failure."""

import contextlib
import http.client
import json
import resource
import socket
import threading
import time
from datetime import datetime, timezone
from urllib.parse import quote

import numpy as np
import pytest
import xxhash

from mr_dedup.errors import MrDedupError
from mr_dedup.index.fingerprint_options import FingerprintOptions
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.http_client import HttpIndex
from mr_dedup.server.service import Limits
from tests.server.running import TOKEN, Running, running

JSON = {"Content-Type": "application/json"}
LIMITS = Limits(max_body_bytes=20_000, max_batch=50)


def call(server, method, path, message=None, headers=JSON):
    """Status, headers and content of a response; ``message`` may be the bytes of a body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with contextlib.closing(connection):
        body = message if isinstance(message, bytes | None) else json.dumps(message)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    is_json = answer.headers["Content-Type"] == "application/json"
    return answer.status, answer.headers, json.loads(content) if is_json else content.decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server") / "index"
    with (
        HammingIndex.create(folder, made_from=FingerprintOptions()) as index,
        running(index, LIMITS) as server,
    ):
        yield server


@pytest.fixture(autouse=True)
def emptied(request):
    if "server" in request.fixturenames:
        index = request.getfixturevalue("server").service.index
        index.remove([match.id for value in VALUES for match in index.query(one(value))])
        assert len(index) == 0


VALUES = (1, 2, 7, 1 << 63, (1 << 64) - 1)


def one(value):
    return np.array([value], np.uint64)


def test_documents_are_checked_added_found_and_removed(server):
    message = [
        {"id": "a", "fingerprint": 1},
        {"id": "b", "fingerprint": "0x2"},
        {"id": "c/é\n ", "fingerprint": "-1"},
        {"id": "d", "text": "..."},
    ]
    values = server.service.index.made_from.fingerprinter().of(texts_column("..."))
    dots = str(int(values.view(np.int64)[0]))
    near_a = {"id": "a", "fingerprint": "1", "distance": 2}
    assert call(server, "POST", "/v1/documents", {"documents": message, "limit": 1})[2] == {
        "results": [
            {"id": "a", "fingerprint": "1", "added": True, "matches": []},
            {"id": "b", "fingerprint": "2", "added": True, "matches": [near_a]},
            {"id": "c/é\n ", "fingerprint": "-1", "added": True, "matches": []},
            {"id": "d", "fingerprint": dots, "added": True, "matches": []},
        ]
    }
    message = [{"id": "e", "fingerprint": 3}, {"id": "f", "fingerprint": 1 << 63}]
    found = call(server, "POST", "/v1/documents", {"documents": message, "k": 0, "only_new": True})[
        2
    ]
    assert [each["added"] for each in found["results"]] == [True, True]
    found = call(server, "POST", "/v1/documents", {"documents": message[:1], "only_new": True})[2]
    assert found["results"][0]["added"] is False
    found = call(server, "POST", "/v1/query", {"fingerprints": [(1 << 64) - 1, "7"], "k": 1})[2]
    assert [[match["id"] for match in each["matches"]] for each in found["results"]] == [
        ["c/é\n "], ["e"],
    ]  # fmt: skip
    assert call(server, "PUT", "/v1/documents", {"documents": message})[2] == {
        "new": 0,
    }  # fmt: skip
    path = f"/v1/documents/{quote('c/é' + chr(10) + ' ', safe='')}"
    stored = {"id": "c/é\n ", "fingerprint": "-1"}
    assert call(server, "GET", path)[::2] == (200, stored)
    assert call(server, "GET", "/v1/documents/f")[2] == {"id": "f", "fingerprint": str(-(1 << 63))}
    assert call(server, "DELETE", path)[::2] == (200, {"removed": [True]})
    assert call(server, "DELETE", path)[::2] == (404, {"error": "no document has this id"})
    removed = call(server, "POST", "/v1/remove", {"ids": ["a", "x", "f", "d"]})[2]
    assert removed == {"removed": [True, False, True, True]}
    stats = call(server, "GET", "/v1/stats")[2]
    assert (stats["documents"], stats["k"], stats["named"], stats["texts"]) == (2, 3, True, True)
    assert [stats[f"max_{what}"] for what in ("batch", "body_bytes", "matches")] == [
        50, 20_000, 100_000,
    ]  # fmt: skip
    assert stats["last_segment_time"] is None
    assert stats["memory_bytes"] > 1 << 20
    server.service.index.compact()
    made = datetime.fromisoformat(call(server, "GET", "/v1/stats")[2]["last_segment_time"])
    assert abs((datetime.now(timezone.utc) - made).total_seconds()) < 600


def test_texts_are_known_by_their_words(server):
    values = server.service.index.made_from.fingerprinter().of(texts_column("one two"))
    found = call(server, "POST", "/v1/query", {"texts": ["two one", ""]})[2]["results"]
    assert int(found[0]["fingerprint"]) % (1 << 64) == values[0]
    assert int(found[1]["fingerprint"]) % (1 << 64) == xxhash.xxh3_64_intdigest(b"")
    documents = [{"id": "a", "text": "one two"}, {"id": "b", "text": "!"}]
    assert call(server, "PUT", "/v1/documents", {"documents": documents})[2] == {
        "new": 2,
    }  # fmt: skip
    found = call(server, "POST", "/v1/query", {"texts": ["!", "!!"]})[2]["results"]
    assert [[match["id"] for match in each["matches"]] for each in found] == [["b"], []]
    with HttpIndex(server.url) as index:
        (found,) = index.check_and_add_texts(["two one"], ["c"], only_new=True)
        assert ([match.id for match in found.matches], found.added) == (["a"], False)
        for ids, reason in [
            (["c"], "ids: 1 for 2 documents"), (None, "ids: needed"), (["c", ""], "id"),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=reason):
                index.check_and_add_texts(["two", "one"], ids)
    server.service.index.remove(["a", "b"])


@pytest.mark.parametrize(
    "path", ["/v1/documents%2Fabc", "/v1/%64ocuments/abc", "/%761/documents/x"]
)
def test_an_id_is_what_follows_the_path_itself(server, path):
    ids = ["2Fabc", "s/abc", "abc", "nts/x", "x"]
    server.service.index.add(np.full(5, 7, np.uint64), ids)
    assert call(server, "DELETE", path)[::2] == (404, {"error": "not found"})
    assert server.service.index.remove(ids).all()
    server.service.index.add(one(7), ["%2F/s"])
    assert call(server, "DELETE", "/v1/documents/%252F%2Fs")[0] == 200


def texts_column(*texts):
    import pyarrow as pa

    return pa.array(texts, pa.large_string())


@pytest.mark.parametrize(
    ("method", "path", "message", "status", "reason"),
    [
        ("POST", "/v1/query", b"", 400, "truncated"),
        ("POST", "/v1/query", b"{", 400, "truncated"),
        ("POST", "/v1/query", b"[" * 9000, 400, "Expected `object`"),
        ("POST", "/v1/query", b'{"texts": ["\xff"]}', 400, "utf-8"),
        ("POST", "/v1/query", b'{"texts": ["\\ud800"]}', 400, ""),
        ("POST", "/v1/query", [], 400, "Expected `object`"),
        ("POST", "/v1/query", {}, 400, "either fingerprints or texts"),
        ("POST", "/v1/query", {"texts": [], "fingerprints": []}, 400, "either"),
        ("POST", "/v1/query", {"fingerprints": [1 << 64]}, 400, "not a number of 64 bits"),
        ("POST", "/v1/query", {"fingerprints": [-(1 << 63) - 1]}, 400, "not a number of 64 bits"),
        ("POST", "/v1/query", {"fingerprints": ["1e3"]}, 400, "not a number of 64 bits"),
        ("POST", "/v1/query", {"fingerprints": ["٣"]}, 400, "not a number of 64 bits"),
        ("POST", "/v1/query", {"fingerprints": [10**4000]}, 400, ""),
        ("POST", "/v1/query", {"fingerprints": [5.0]}, 400, "got `float`"),
        ("POST", "/v1/query", {"fingerprints": [True]}, 400, "Expected `int | str`"),
        ("POST", "/v1/query", {"fingerprints": [], "k": 4}, 400, "k must be from 0 to 3"),
        ("POST", "/v1/query", {"fingerprints": [], "limit": 0}, 400, "limit must be"),
        ("POST", "/v1/query", {"fingerprints": [], "typo": 1}, 400, "unknown field `typo`"),
        (
            "POST",
            "/v1/query",
            {"fingerprints": [1] * 51},
            400,
            "51 documents in one request; at most 50 are",
        ),
        ("POST", "/v1/query", b" " * 20_001, 413, "20,000 bytes"),
        ("POST", "/v1/documents", {"documents": [{"id": "a"}]}, 400, "document 1: expected"),
        (
            "POST",
            "/v1/documents",
            {"documents": [{"text": "a"}]},
            400,
            "document 1: expected an id",
        ),
        ("POST", "/v1/documents", {"documents": [{"id": "", "text": "."}]}, 400, "ids"),
        ("PUT", "/v1/documents", {"documents": [{"id": "a", "fingerprint": "x"}]}, 400, "'x'"),
        ("PUT", "/v1/documents", {"documents": [{}] * 51}, 400, "in one request"),
        ("POST", "/v1/remove", {"ids": [1]}, 400, "Expected `str`"),
        ("POST", "/v1/remove", {"ids": ["a"] * 51}, 400, "in one request"),
        ("DELETE", "/v1/documents/", None, 400, "ids"),
        ("DELETE", "/v1/documents/%FF", None, 400, "utf-8"),
        ("DELETE", "/v1/documents/none", None, 404, "no document"),
        ("GET", "/v1/documents/none", None, 404, "no document"),
        ("GET", "/v1/documents/", None, 400, "ids"),
        ("GET", "/v1/documents/%FF", None, 400, "utf-8"),
        ("GET", "/v1/query", None, 405, "method not allowed"),
        ("GET", "/v1/query/", None, 404, "not found"),
        ("GET", "/v2", None, 404, "not found"),
    ],
)
def test_a_failure_is_one_line(server, method, path, message, status, reason):
    got, headers, said = call(server, method, path, message)
    assert (got, headers["Content-Type"], list(said)) == (status, "application/json", ["error"])
    assert reason in said["error"]
    assert said["error"].strip()
    assert "\n" not in said["error"]
    assert call(server, "GET", "/v1/stats")[2]["documents"] == 0


def test_bodies_are_json_and_from_this_machine(server):
    body = b'{"fingerprints": []}'
    for message in ({}, {"Content-Type": "text/plain"}):
        assert call(server, "POST", "/v1/query", body, message)[0] == 415
    charset = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert call(server, "POST", "/v1/query", body, charset)[0] == 200
    for host in (
        "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.x", "128.0.0.1",
        "10.0.0.1:80", "[::2]", "::1", "[127.0.0.1", "127.1", "2130706433", "localhost:80:80", "",
    ):  # fmt: skip
        assert call(server, "GET", "/v1/stats", headers={"Host": host})[0] == 421
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "127.9.0.2:80", "[::1]", "[::1]:80"):
        assert call(server, "GET", "/v1/stats", headers={"Host": host})[0] == 200


def test_any_loopback_address_can_be_served(tmp_path):
    with (
        HammingIndex.create(tmp_path / "index") as index,
        running(index, host="127.0.0.2") as server,
        HttpIndex(server.url) as remote,
    ):
        assert remote.add(one(1), ["a"]) == 1


def chunked(server, head, chunks):
    """The status line of the response to a body that is sent in parts, and may never end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(f"POST /v1/query HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            for chunk in chunks:
                sock.sendall(chunk)
        return sock.makefile("rb").readline()


CHUNKED = "Content-Type: application/json\r\nTransfer-Encoding: chunked"


def test_slow_bodies_time_out(tmp_path):
    limits = Limits(timeout_seconds=1)
    with HammingIndex.create(tmp_path / "index") as index, running(index, limits) as server:
        assert b" 408 " in chunked(server, CHUNKED, [b"1\r\n{\r\n"])


def test_large_bodies_are_refused(server):
    endless = (b"3e8\r\n" + b" " * 1000 + b"\r\n" for _ in range(30))
    assert b" 413 " in chunked(server, CHUNKED, endless)
    message = "Content-Type: application/json\r\nContent-Length: 99999999999"
    assert b" 413 " in chunked(server, message, [])


def test_a_client_that_disconnects_is_not_a_failure(server):
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(b"POST /v1/query HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{")  # fmt: skip
    assert call(server, "GET", "/health")[::2] == (200, "serving\n")
    text = call(server, "GET", "/metrics")[2]
    assert 'status="500"' not in text


def test_metrics_count_requests_and_documents(server):
    call(server, "PUT", "/v1/documents", {"documents": [{"id": "a", "fingerprint": 7}]})
    text = call(server, "GET", "/metrics")[2]
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines["mr_dedup_index_documents"] == "1.0"
    before = float(lines['mr_dedup_http_requests_total{method="PUT",path="/v1/documents",'
                         'status="200"}'])  # fmt: skip
    assert before >= 1
    assert lines["mr_dedup_http_requests_in_progress"] == "1.0"
    call(server, "BREW", "/v1/stats")
    assert 'method="other",path="/v1/stats",status="405"' in call(server, "GET", "/metrics")[2]


def test_pages_are_kept_from_other_sites(server):
    status, headers, said = call(server, "GET", "/")
    assert status == 200
    assert said.startswith("<!DOCTYPE html>")
    assert "{{" not in said
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Access-Control-Allow-Origin"] is None


def test_a_token_is_needed_for_the_contents_of_the_index(tmp_path):
    with HammingIndex.create(tmp_path / "index") as index, running(index, token=TOKEN) as server:
        for path, open_to_all in (
            ("/", True), ("/health", True), ("/openapi.json", True),
            ("/v1/stats", False), ("/v1/designs", False), ("/metrics", False), ("/none", False),
        ):  # fmt: skip
            assert call(server, "GET", path)[0] == (200 if open_to_all else 401)
        for message in (TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
                     "Bearer", "Bearer \xe9"):  # fmt: skip
            status, headers, said = call(
                server, "GET", "/v1/stats", headers={"Authorization": message}
            )
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert TOKEN not in said["error"]
        # with a token any host name will do
        for message in (f"Bearer {TOKEN}", f"bearer  {TOKEN}"):
            headers = {"Authorization": message, "Host": "index.example"}
            assert call(server, "GET", "/v1/stats", headers=headers)[0] == 200
        with pytest.raises(MrDedupError, match="needs the bearer token"):
            HttpIndex(server.url)
        with HttpIndex(server.url, token=TOKEN) as remote:
            assert remote.add(one(1), ["a"]) == 1


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline


def test_max_calls(tmp_path):
    limits = Limits(max_calls=1, timeout_seconds=30)
    with HammingIndex.create(tmp_path / "index") as index, running(index, limits) as server:
        head = "Content-Type: application/json\r\nContent-Length: 20"
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
            sock.sendall(f"POST /v1/query HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
            sock.sendall(b'{"fingerprints"')
            wait_until(lambda: call(server, "GET", "/v1/stats")[0] == 503)
            answer = call(server, "GET", "/v1/stats")
            assert answer[1]["Retry-After"] == "1"
            assert call(server, "GET", "/health")[0] == 200
            sock.sendall(b": []}")
            assert b" 200 " in sock.makefile("rb").readline()


def test_max_matches(tmp_path):
    limits = Limits(max_matches=100)
    with HammingIndex.create(tmp_path / "index") as index, running(index, limits) as server:
        index.add(np.full(60, 7, np.uint64), [f"{number}" for number in range(60)])
        queries, documents = {"fingerprints": [7, 6]}, []
        for number in range(2):
            documents.append({"id": f"new {number}", "fingerprint": 7})
        for method, path, message in (
            ("POST", "/v1/query", queries),
            ("POST", "/v1/documents", {"documents": documents}),
        ):
            status, _, said = call(server, method, path, message)
            assert (status, said["error"]) == (
                400,
                "more than 100 matches in one response; send fewer queries at once, or a smaller "
                "limit",
            )
            assert len(index) == 60
            for limit in (50, 1):
                status, _, said = call(server, method, path, {**message, "limit": limit})
                assert [len(each["matches"]) for each in said["results"]] == [limit] * 2
            index.remove(["new 0", "new 1"])
        message = {"fingerprints": [7]}
        assert len(call(server, "POST", "/v1/query", message)[2]["results"][0]["matches"]) == 60
        schemas = call(server, "GET", "/openapi.json")[2]["components"]["schemas"]
        limit = schemas["CheckAndAdd"]["properties"]["limit"]
        assert "more than 100 matches" in limit["description"]


def test_a_change_that_takes_too_long(tmp_path):
    limits = Limits(timeout_seconds=1)
    with (
        HammingIndex.create(tmp_path / "index") as index,
        running(index, limits) as server,
        index._committer.changing,  # changes wait, queries do not
    ):
        message = {"documents": [{"id": "a", "fingerprint": 7}]}
        status, _, said = call(server, "PUT", "/v1/documents", message)
        assert status == 503
        assert "took longer than 1 s" in said["error"]
        assert call(server, "POST", "/v1/query", {"fingerprints": [7]})[0] == 200


def test_abandoned_work_keeps_its_turn_and_counts_as_a_request(tmp_path):
    limits = Limits(timeout_seconds=1, max_calls=2)
    with HammingIndex.create(tmp_path / "index") as index, running(index, limits) as server:
        with index._committer.forcing:  # a change waits for the disk
            for id, outcome in (("a", "a change may still be made"), ("b", "not started")):
                message = {"documents": [{"id": id, "fingerprint": 7}]}
                status, _, said = call(server, "PUT", "/v1/documents", message)
                assert (status, outcome in said["error"]) == (503, True)
            # the abandoned one, this one, and no other
            wait_until(lambda: call(server, "GET", "/v1/designs")[0] == 200)
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
                sock.sendall(
                    b"POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
                    b"Content-Type: application/json\r\n\r\n{"
                )
                wait_until(lambda: call(server, "GET", "/v1/designs")[0] == 503)
        wait_until(lambda: len(index) == 1)
        wait_until(lambda: call(server, "GET", "/v1/designs")[0] == 200)
        # the one that waited for its turn was not made
        message = {"documents": [{"id": "c", "fingerprint": 7}]}
        assert call(server, "PUT", "/v1/documents", message)[0] == 200
        assert list(index.query(one(7)).ids) == ["a", "c"]


def test_a_server_ends_when_no_thread_is_working(tmp_path):
    with HammingIndex.create(tmp_path / "index") as index:
        server = Running(index, Limits(timeout_seconds=1))
        message = {"documents": [{"id": "a", "fingerprint": 7}]}
        with index._committer.forcing:  # a change waits for the disk
            assert call(server, "PUT", "/v1/documents", message)[0] == 503
            stopped = threading.Thread(target=server.stop)
            stopped.start()
            stopped.join(0.5)
            assert stopped.is_alive()
        stopped.join()
        assert list(index.query(one(7)).ids) == ["a"]


def test_a_full_disk_is_reported_and_queries_continue(tmp_path):
    with HammingIndex.create(tmp_path / "index") as index, running(index) as server:
        index.add(one(7), ["a"])
        message = {"documents": [{"id": "b", "fingerprint": 7}]}
        # no file can grow beyond the size of the log, as on a full disk
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (index.stats().log_bytes, hard))
        try:
            status, _, said = call(server, "PUT", "/v1/documents", message)
            found = call(server, "POST", "/v1/query", {"fingerprints": [7]})[2]["results"]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert status == 503
        assert "cannot be written: File too large" in said["error"]
        assert [match["id"] for match in found[0]["matches"]] == ["a"]
        assert call(server, "PUT", "/v1/documents", message)[0] == 200


def test_an_index_without_ids_or_texts(tmp_path):
    with HammingIndex.create(tmp_path / "index", named=False) as index, running(index) as server:
        found = call(server, "POST", "/v1/documents", {"documents": [{"fingerprint": "-5"}]})[2]
        assert found["results"][0] == {
            "id": None, "fingerprint": "-5", "added": True, "matches": [],
        }  # fmt: skip
        message = {"documents": [{"id": "a", "fingerprint": 5}]}
        assert "expected no id" in call(server, "POST", "/v1/documents", message)[2]["error"]
        message = {"documents": [{"text": "one"}]}
        assert "send fingerprints" in call(server, "POST", "/v1/documents", message)[2]["error"]
        stored = {"id": "-5", "fingerprint": "-5"}
        assert call(server, "GET", "/v1/documents/-5")[::2] == (200, stored)
        assert call(server, "GET", "/v1/documents/5")[0] == 404
        assert call(server, "DELETE", "/v1/documents/-5")[0] == 200
        assert call(server, "DELETE", "/v1/documents/five")[0] == 400


def test_32_clients_at_a_time(tmp_path):
    """Each adds documents of its own, and some that all add: only the first of these is new."""
    with HammingIndex.create(tmp_path / "index", relaxed=True) as index, running(index) as server:
        rng = np.random.default_rng(3)
        common = rng.integers(0, 1 << 64, 20, np.uint64)
        added = np.zeros((32, len(common)), bool)
        failures = []

        def client(number):
            own = np.random.default_rng([4, number]).integers(0, 1 << 64, len(common), np.uint64)
            try:
                with HttpIndex(server.url) as remote:
                    for row, value in enumerate(common.tolist()):
                        ids = [f"{number} {row}"]
                        found = remote.check_and_add(one(value), ids, only_new=True)
                        added[number, row] = found.added[0]
                        assert remote.add(one(int(own[row])), [f"own {number} {row}"]) == 1
                        matches = remote.query(one(int(own[row])), 0)
                        assert list(matches.ids) == [f"own {number} {row}"]
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert added.sum(axis=0).tolist() == [1] * len(common)
        assert len(index) == 33 * len(common)
