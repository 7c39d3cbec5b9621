"""Changes that wait for each other form a group, and are answered once it is on disk."""

import threading

from mr_dedup.index.hamming_index import HammingIndex
from tests.index.test_group_commit import Forces
from tests.server.running import running
from tests.server.test_app import call, one, wait_until

CALLERS = 8


def waiting(server):
    """How many changes wait for the running group."""
    return server._server._workers._changes._waiting.qsize()


def answers_of_a_group(server, forces, failures=0):
    """Responses to a change that is made alone, and to others that arrive meanwhile."""
    forces.allowed.clear()
    forces.reached.clear()
    answers = [None] * (CALLERS + 1)

    def add(number):
        message = {"documents": [{"id": f"page {number}", "fingerprint": 7}], "only_new": True}
        answers[number] = call(server, "POST", "/v1/documents", message)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(CALLERS + 1)]
    threads[0].start()
    assert forces.reached.wait(60)
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: waiting(server) == CALLERS)
    # what is not on disk is not visible
    found = call(server, "POST", "/v1/query", {"fingerprints": [7]})[2]["results"]
    assert found[0]["matches"] == []
    forces.failures = failures
    forces.allowed.set()
    for thread in threads:
        thread.join()
    return answers


def test_changes_that_wait_share_one_force(tmp_path, monkeypatch):
    with HammingIndex.create(tmp_path / "index") as index, running(index) as server:
        forces = Forces(monkeypatch)
        answers = answers_of_a_group(server, forces)
        assert [answer[0] for answer in answers] == [200] * (CALLERS + 1)
        added = [answer[2]["results"][0]["added"] for answer in answers]
        # the others see the first, which was on disk before they were answered
        assert added == [True] + [False] * CALLERS
        assert forces.count == 1
        assert list(index.query(one(7)).ids) == ["page 0"]


def test_a_force_that_fails_refuses_all_that_share_it(tmp_path, monkeypatch):
    with HammingIndex.create(tmp_path / "index") as index, running(index) as server:
        forces = Forces(monkeypatch)
        answers = answers_of_a_group(server, forces, failures=1)
        assert [answer[0] for answer in answers] == [503] * (CALLERS + 1)
        assert "Input/output error" in answers[0][2]["error"]
        assert all("open the index anew" in answer[2]["error"] for answer in answers[1:])
        # queries continue, and nothing of what was refused is visible
        found = call(server, "POST", "/v1/query", {"fingerprints": [7]})[2]["results"]
        assert found[0]["matches"] == []
        assert len(index) == 0


def test_a_refused_change_leaves_the_others_of_its_group(tmp_path, monkeypatch):
    with HammingIndex.create(tmp_path / "index") as index, running(index) as server:
        forces = Forces(monkeypatch)
        forces.allowed.clear()
        answers = {}

        def put(id, fingerprint):
            message = {"documents": [{"id": id, "fingerprint": fingerprint}]}
            answers[id] = call(server, "PUT", "/v1/documents", message)[0]

        threads = [
            threading.Thread(target=put, args=each)
            for each in (("a", 1), ("b", 2), ("wrong", "no number"), ("c", 3))
        ]
        threads[0].start()
        assert forces.reached.wait(60)
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: waiting(server) == len(threads) - 1)
        forces.allowed.set()
        for thread in threads:
            thread.join()
        assert answers == {"a": 200, "b": 200, "wrong": 400, "c": 200}
        assert len(index) == 3
        assert forces.count == 2


def test_no_change_is_answered_from_one_that_its_group_lost(tmp_path, monkeypatch):
    with HammingIndex.create(tmp_path / "index") as index, running(index) as server:
        assert call(server, "PUT", "/v1/documents", {"documents": [document("x", 7)]})[0] == 200
        forces = Forces(monkeypatch)
        forces.succeed, forces.failures = 1, 1
        forces.allowed.clear()
        answers = []

        def ask(*request):
            answers.append(call(server, *request)[0])

        first = threading.Thread(
            target=ask, args=("PUT", "/v1/documents", {"documents": [document("y", 8)]})
        )
        first.start()
        assert forces.reached.wait(60)
        # the second finds that the first has removed it, which is then not forced to the disk
        removals = [
            threading.Thread(target=ask, args=("DELETE", "/v1/documents/x")) for _ in range(2)
        ]
        for thread in removals:
            thread.start()
        wait_until(lambda: waiting(server) == len(removals))
        forces.allowed.set()
        for thread in [first, *removals]:
            thread.join()
        assert sorted(answers) == [200, 503, 503]
        assert list(index.query(one(7)).ids) == ["x"]


def document(id, fingerprint):
    return {"id": id, "fingerprint": fingerprint}
