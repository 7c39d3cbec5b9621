"""No command prints or writes passwords and signatures of the URIs that it gets."""

import json
import sys
from pathlib import Path

import pytest

from mr_dedup.cli import inspect, streams
from mr_dedup.cli.main import main
from tests.cli.documents import made_up_documents
from tests.storage import servers

LINES = "".join(
    json.dumps(document) + "\n" for document in made_up_documents(1) if document["text"].strip()
).encode()
QUERY = "X-Amz-Signature=SECRET&sig=SECRET&token=SECRET&Expires=5"
SECRET = b"SECRET"


@pytest.fixture(scope="module")
def server():
    with servers.web_server() as server:
        yield server


@pytest.fixture
def uri(server):
    def of(name, content):
        server.files[f"/{name}?{QUERY}"] = (
            content if isinstance(content, int) else servers.WebFile(content)
        )
        return server.uri.replace("://", "://me:SECRET@") + f"/{name}?{QUERY}"

    return of


def commands(uri, out):
    return {
        "dedup": ["dedup", uri, "-o", out],
        "inline": ["dedup", uri, "-o", out, "-r", "inline"],
        "against": ["dedup", uri, "--against", uri, "-o", out],
        "fingerprint": ["fingerprint", uri, "-o", f"{out}.parquet"],
        "passages": ["passages", uri, "-o", out],
        "decontaminate": ["decontaminate", uri, "--evals", uri, "-o", out],
        "idf": ["idf", uri, "-o", f"{out}.idf"],
        "inspect": ["inspect", uri],
        "query": ["query", uri, "--queries", uri],
        "pairs": ["pairs", uri],
        "why": ["why", uri, "1"],
        "counts": ["counts", uri, "-o", out],
        "restore": ["restore", uri, "-o", out],
        "convert": ["convert", uri, "-o", f"{out}.longs"],
        "evaluate": ["evaluate", uri, "--truth", uri],
        "compare": ["compare", uri, "--truth", uri, "-o", out],
        "urls": ["urls", "add", uri, "--store", out],
        "index": ["index", "add", out, uri],
        "serve": ["serve", uri],
        "plan": ["plan", uri],
    }


NAMES = list(commands("", ""))
FORMATS = [
    [],
    ["--debug"],
    ["--log-format", "json"],
    ["--log-format", "json", "--debug"],
]


@pytest.mark.parametrize("options", [FORMATS[0], FORMATS[-1]], ids=" ".join)
@pytest.mark.parametrize("name", NAMES)
def test_files_of_web_servers(uri, tmp_path, capfd, name, options):
    outcomes = {"absent": 404, "refused": 403, "damaged": b'{"id": "1", ' * 5, "good": LINES}
    for outcome, content in outcomes.items():
        out = tmp_path / outcome
        words = commands(uri(f"{outcome}.jsonl", content), str(out))[name]
        code = _code([*options, *words])
        output = capfd.readouterr()
        assert "SECRET" not in output.out + output.err
        assert code != 70
        if outcome == "good" and name in ("dedup", "inline", "passages"):
            assert code == 0, output.err
        if "json" in options and name != "serve" and code == 2:
            _require_json(output.err)
    _require_none_in_files(tmp_path)


@pytest.mark.parametrize("options", FORMATS, ids=" ".join)
@pytest.mark.parametrize(
    "store",
    [
        "redis://:SECRET@127.0.0.1:9/0#n",
        "redis://me:SECRET@127.0.0.1:9/x#n",
        "redis://:SEC/SECRET@127.0.0.1:9/0",
        "redis://:SECRET?#@127.0.0.1:9",
        "redis://:SECRET@[bad/0",
        "REDISS://:SECRET@127.0.0.1:9",
        "unix://:SECRET@/nowhere/socket?db=0",
        "redis://127.0.0.1:9/0?password=SECRET",
        "redis:/:SECRET@host",
    ],
)
def test_stores_of_urls(tmp_path, capfd, store, options):
    lines = tmp_path / "urls.txt"
    lines.write_text("http://example.org/\n")
    for words in (["stats"], ["add", str(lines)], ["check", str(lines)], ["no-action"]):
        assert _code([*options, "urls", *words, "--store", store]) == 2
        output = capfd.readouterr()
        assert "SECRET" not in output.out + output.err
        assert output.err


def _code(words):
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


def _require_json(text):
    # usage errors are found before the option is known
    for line in text.splitlines() if text.startswith("{") else ():
        json.loads(line)


def _require_none_in_files(folder: Path):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in files if SECRET in path.read_bytes()] == []


@pytest.mark.parametrize("options", FORMATS, ids=" ".join)
def test_exceptions_of_libraries(capfd, monkeypatch, options):
    def fail(arguments):
        try:
            raise KeyError("https://me:SECRET@host/a?sig=SECRET")
        except KeyError as error:
            raise RuntimeError("Authorization: Bearer SECRET") from error

    monkeypatch.setattr(inspect, "run", fail)
    assert main([*options, "inspect", "x"]) == 70
    err = capfd.readouterr().err
    assert "SECRET" not in err
    assert ("KeyError" in err) == ("--debug" in options)
    assert "a bug in mr-dedup: RuntimeError" in err


def test_what_others_print_to_standard_error(capfd):
    with streams.dependable_streams():
        print("https://me:SECRET@host/?sig=SECRET", file=sys.stderr)
    assert capfd.readouterr().err == "https://host/?sig=…\n"
