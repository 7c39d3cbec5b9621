"""Leases of directories in stores: one owner at a time, also after kills."""

import json
import subprocess
import sys
import threading
import time

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.storage import leases
from mr_dedup.storage.leases import Lease
from mr_dedup.storage.listing import files_below
from mr_dedup.storage.writing import create
from tests.storage.servers import Fault, lost


def lease_of(place):
    return Lease(place.of(".kept.lock"), place.of("kept"))


def test_one_run_has_it_at_a_time(writable):
    with lease_of(writable) as lease:
        assert lease.is_owned()
        with pytest.raises(MrDedupError, match="kept: another run is writing it, process"):
            lease_of(writable).__enter__()
        assert lease.is_owned()
    assert files_below(writable.of(".kept.lock")) == []
    with lease_of(writable):
        pass


@pytest.mark.parametrize("machine", ["this one", "another"])
def test_a_run_that_was_killed_is_followed(writable, monkeypatch, machine):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = {**leases._this_process(), "process": str(process.pid)}
        owner["started"] = leases._start_of(str(process.pid))
        if machine == "another":
            owner["machine"] = "another one"
        writable.write(".kept.lock/000000000009", json.dumps(owner).encode())
        with pytest.raises(MrDedupError, match="another run is writing it"):
            lease_of(writable).__enter__()
    if machine == "another":
        with pytest.raises(MrDedupError, match=r"if it was killed, the result is free in 1\d\d? s"):
            lease_of(writable).__enter__()
        monkeypatch.setattr(leases, "LEASE_SECONDS", -1)
    with lease_of(writable) as lease:
        assert lease.is_owned()
        assert len(files_below(writable.of(".kept.lock"))) == 1


@pytest.mark.parametrize("content", [b"", b"mine"])
def test_a_file_by_its_name_is_named(writable, content):
    writable.write(".kept.lock", content)
    for _ in range(2):
        with pytest.raises(MrDedupError, match=r"\.kept\.lock: a file where runs have a directory"):
            lease_of(writable).__enter__()
    assert [file.uri for file in files_below(writable.of(""))] == [writable.of(".kept.lock")]
    assert writable.read(".kept.lock") == content


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"machine": 3, "process": [1]}'])
def test_a_file_that_states_no_owner_ends_by_its_age(writable, monkeypatch, content):
    writable.write(".kept.lock/000000000009", content)
    with pytest.raises(MrDedupError, match=r"process .* on .*the result is free in"):
        lease_of(writable).__enter__()
    monkeypatch.setattr(leases, "LEASE_SECONDS", -1)
    with lease_of(writable):
        pass


def test_it_is_renewed_until_another_run_takes_over(writable, monkeypatch):
    monkeypatch.setattr(leases, "_RENEWAL_SECONDS", 0.05)
    with lease_of(writable) as lease:
        first = lease._number
        deadline = time.monotonic() + 20
        while lease._number < first + 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert lease.is_owned()
        monkeypatch.setattr(Lease, "_require_ended", lambda *_: None)
        with lease_of(writable) as other:
            assert other.is_owned()
            assert not lease.is_owned()
    assert not lease.is_owned()


def test_of_many_runs_one_gets_it(s3):
    """On the condition that there is no such file, which the store checks."""
    barrier, taken = threading.Barrier(8), []

    def run(number):
        barrier.wait()
        if create(s3.of("lock/1"), b"%d" % number):
            taken.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [b"%d" % number for number in taken] == [s3.read("lock/1")]


def test_a_response_that_is_lost(s3, quick):
    """The file is there, and it is the run's own."""
    s3.proxy.faults.append(Fault("PUT .*lock", lost, times=1))
    with lease_of(s3) as lease:
        assert lease.is_owned()
