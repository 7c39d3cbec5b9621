"""Commands on stores that fail: one line, nothing that looks whole, and a run that is resumed."""

import contextlib
import gzip
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mr_dedup.cli.main import main
from mr_dedup.errors import MrDedupError
from mr_dedup.pipeline import dedup_stages
from mr_dedup.storage.uris import name_below
from tests.storage.servers import Fault, faulty
from tests.storage.test_commands import files_of, made, pages_in, run, uploaded

__all__ = ["made"]

READS = r"GET .*pages/.*bytes="


def failed(capfd, *arguments):
    """Run a command that must fail; return its last line of errors."""
    assert main([str(each) for each in arguments]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert sum(line.startswith("mr-dedup: error: ") for line in lines) == 1, lines
    assert "Traceback" not in "".join(lines)
    return lines[-1]


@pytest.mark.parametrize("runner", ["memory", "inline", "local"])
@pytest.mark.parametrize("kind", [500, 503, "close", "reset"])
def test_failures_that_pass_change_nothing(made, s3, quick, capfd, tmp_path, runner, kind):
    of = uploaded(made, s3)
    run(capfd, "dedup", made / "pages", "-o", tmp_path / "here", "--cores", "2")
    # the size of chunks depends on the cores
    s3.proxy.faults += [Fault(READS, kind, 2), Fault(r"GET .*list-type", kind, 1)]
    run(capfd, "dedup", of("pages"), "-o", tmp_path / "there", "-r", runner, "--cores", "2")
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    assert sum(fault.met for fault in s3.proxy.faults) == 3


def test_a_store_that_refuses_is_one_line(made, s3, quick, capfd, tmp_path):
    of = uploaded(made, s3)
    s3.proxy.faults.append(Fault(READS, 403))
    first = of(pages_in(made)[0])
    for command in (["dedup"], ["fingerprint"]):
        out = tmp_path / "out.tsv"
        said = failed(capfd, *command, of("pages"), "-o", out)
        name = Path(pages_in(made)[0]).name
        assert said.startswith(
            f"mr-dedup: error: none of 4 files could be read; the first, {name}: access denied"
        ), said
        assert not out.exists()
    said = failed(capfd, "distance", first, first)
    assert said.startswith(f"mr-dedup: error: {first}: access denied"), said
    s3.proxy.faults[:] = [Fault("PUT ", 403)]
    corpus = made / "longs" / "corpus-00000.longs"
    said = failed(capfd, "convert", corpus, "-o", of("out.longs"))
    assert said.startswith(f"mr-dedup: error: {of('out.longs')}: access denied"), said


@pytest.mark.parametrize("name", ["../../../out.longs", "/out.longs", "a/../../out.longs"])
def test_a_name_that_leads_out_of_its_directory_is_not_copied(name):
    with pytest.raises(MrDedupError, match="its name leads out of s3://bucket/data"):
        name_below(f"s3://bucket/data/{name}", "s3://bucket/data/")


def test_a_store_cannot_write_outside_of_the_scratch_space(made, s3, capfd, tmp_path):
    uploaded(made, s3)
    corpus = (made / "longs" / "corpus-00000.longs").read_bytes()
    # two slashes: what follows would be an absolute path
    s3.write(f"traps/{tmp_path}/escaped.longs", corpus)
    said = failed(capfd, "convert", s3.of("traps"), "-o", tmp_path / "all.longs")
    assert "its name leads out of" in said
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_resumed_names_its_uri(made, s3, capfd):
    of = uploaded(made, s3)
    said = failed(capfd, "dedup", of("pages"), "-o", of("kept"), "--resume")
    assert said == f"mr-dedup: error: {of('kept')}: nothing to resume: no run was interrupted"


def test_documents_that_change_during_a_run_end_it(made, s3, capfd, monkeypatch):
    of = uploaded(made, s3)
    name = pages_in(made)[1]
    resolve = dedup_stages.resolve

    def changing(*arguments):
        s3.write(name, (made / name).read_bytes().replace(b"e", b"a"))
        return resolve(*arguments)

    monkeypatch.setattr(dedup_stages, "resolve", changing)
    # what was copied before is still what was read; the files are compared at the end
    said = failed(capfd, "dedup", of("pages"), "-o", of("kept"))
    assert "other documents than when it was first read" in said or "changed" in said
    monkeypatch.undo()
    assert failed(capfd, "dedup", of("pages"), "-o", of("kept"), "--resume")


def test_a_file_larger_than_the_scratch_space_is_one_line(made, s3, capfd, tmp_path):
    s3.write("large.jsonl.gz", gzip.compress(os.urandom(100_000)))
    said = failed(capfd, "dedup", s3.of("large.jsonl.gz"), "-o", tmp_path / "out",
                  "--scratch", "64KB")  # fmt: skip
    assert said.startswith(f"mr-dedup: error: {s3.of('large.jsonl.gz')}: ")
    assert said.endswith("more than the 65,536 that --scratch allows")
    said = failed(capfd, "convert", s3.of("large.jsonl.gz"), "-o", tmp_path / "out.longs",
                  "--from", "longs", "--scratch", "64KB")  # fmt: skip
    assert "--scratch allows" in said


@contextlib.contextmanager
def running(*arguments):
    """Run a command as a process of its own, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mr_dedup", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_public_buckets_of_google_need_no_credentials(made, gs, tmp_path, monkeypatch):
    of = uploaded(made, gs)
    with faulty(gs.server) as metadata:
        monkeypatch.setenv("FSSPEC_GS", '{"token": "anon"}')
        # without this, where a client looks for the role of its machine
        monkeypatch.delenv("NO_GCE_CHECK")
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
            monkeypatch.setenv(name, urlsplit(metadata.uri).netloc)
        with running("fingerprint", of("pages"), "-o", tmp_path / "out.longs") as process:
            said = process.communicate(timeout=60)[1]
        assert process.returncode == 0, said
        assert metadata.requests == []


def met(fault, process):
    """Wait until a request has met a fault."""
    ends = time.monotonic() + 60
    while not fault.met:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_while_files_are_copied_leaves_nothing(made, s3, tmp_path, number):
    of = uploaded(made, s3)
    fault = Fault(READS, "hang")
    s3.proxy.faults.append(fault)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with running("dedup", of("pages"), "-o", tmp_path / "out", "--scratch-dir", scratch) as process:
        met(fault, process)
        process.send_signal(number)
        began = time.monotonic()
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert time.monotonic() - began < 5
    assert not (tmp_path / "out").exists()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("what", ["PUT .*/kept/summary.json", "PUT .*/kept/documents/"])
def test_a_kill_while_the_result_appears_leaves_no_summary(made, s3, capfd, tmp_path, what):
    of = uploaded(made, s3)
    run(capfd, "dedup", made / "pages", "-o", tmp_path / "here")
    fault = Fault(what, "hang")
    s3.proxy.faults.append(fault)
    with running("dedup", of("pages"), "-o", of("kept")) as process:
        met(fault, process)
        process.kill()
    s3.proxy.released.set()
    s3.proxy.faults.clear()
    expected = files_of(tmp_path / "here")
    present = {name for name in expected if present_in(s3, f"kept/{name}")}
    assert "summary.json" not in present
    run(capfd, "dedup", of("pages"), "-o", of("kept"), "--resume")
    assert {name: s3.read(f"kept/{name}") for name in expected} == expected
    assert not present_in(s3, ".kept.unfinished/manifest.json")


def present_in(place, name):
    from mr_dedup.storage.listing import exists

    return exists(place.of(name))


@pytest.mark.parametrize("runner", ["memory", "local"])
def test_a_scratch_disk_without_room_is_one_line(made, s3, capfd, tmp_path, runner):
    of = uploaded(made, s3)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # as on a full disk, a file cannot grow
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, usual[1]))
        said = failed(capfd, "fingerprint", of("pages"), "-o", tmp_path / "out.tsv", "-r", runner)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert "cannot be written: File too large" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == []
