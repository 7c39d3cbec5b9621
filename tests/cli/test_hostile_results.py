"""Results of somebody else: whatever their summaries say, commands end with one line."""

import json
import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.main import main
from mr_dedup.pipeline.stages import Stages
from tests.cli.documents import made_up_documents, write_jsonl

VALUES = [
    None, True, -1, 2**70, -(2**70), 1e308, float("inf"), float("nan"), "", "1", "../..", "\0",
    [], [1], {}, {"a": 1}, [[[]]],
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of each command, and what reads them."""
    folder = tmp_path_factory.mktemp("results")
    path = write_jsonl(folder / "docs.jsonl", [*made_up_documents(7), {"text": "an id"}])
    docs = str(path)
    first, second = str(folder / "first"), str(folder / "second")
    assert main(["dedup", docs, "-o", first]) == 0
    assert main(["dedup", docs, "-o", second, "--against", first]) == 0
    assert main(["passages", docs, "--cut", "all", "--unit", "tokens:10", "-o",
                 str(folder / "cut")]) == 0  # fmt: skip
    return folder


def readers(folder, name):
    """The commands that read a result; ``{}`` is its directory."""
    out = str(folder / "docs.jsonl")
    if name == "cut":
        return [["restore", "{}", "-o", "{}-made", "--overwrite"]]
    return [
        ["why", "{}", "an id"],
        ["counts", "{}", "-o", "{}-made.parquet", "--overwrite", "--follow"],
        ["evaluate", "{}", "--truth", str(folder / "truth.tsv")],
        ["dedup", out, "--against", "{}", "--follow", "-o", "{}-made", "--overwrite"],
    ]


@pytest.mark.parametrize("name", ["first", "second", "cut"])
def test_summaries(results, tmp_path, capfd, name):
    (results / "truth.tsv").write_text("a\tb\n")
    copy = tmp_path / "copy"
    shutil.copytree(results / name, copy)
    summary = json.loads((copy / "summary.json").read_bytes())
    contents = [
        b"", b"{", b"null", b"[]", b"3", b"\xff", b"[" * 100_000,
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
    ]  # fmt: skip
    for number, key in enumerate(summary):
        contents.append({other: summary[other] for other in summary if other != key})
        contents += [{**summary, key: value} for value in VALUES[number % 4 :: 4]]
    for number, member in enumerate(summary["reading"]):
        contents += [
            {**summary, "reading": {**summary["reading"], member: value}}
            for value in VALUES[number % 4 :: 4]
        ]
    for content in contents:
        encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
        (copy / "summary.json").write_bytes(encoded)
        for words in readers(results, name):
            code = main([word.format(copy) for word in words])
            error = capfd.readouterr().err
            assert code in (0, 2), (words, encoded[:2000], error)
            if code == 2:
                assert "Traceback" not in error
                assert len(error.splitlines()[-1]) < 600


def altered(rng, path):
    """Change a table: cut, damaged, without a column or a row, or with values of another type."""
    data = path.read_bytes()
    kind = rng.choice(["cut", "byte", "column", "rows", "type", "values"])
    if kind == "cut":
        path.write_bytes(data[: rng.randrange(len(data))])
    elif kind == "byte":
        at = rng.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :])
    else:
        table = pq.read_table(path)
        at = rng.randrange(table.num_columns)
        name, column = table.column_names[at], table.column(at)
        if kind == "column":
            table = table.remove_column(at)
        elif kind == "rows":
            table = rng.choice([table.slice(1), table.slice(0, 0), pa.concat_tables([table] * 2)])
        elif kind == "type":
            other = pa.array(map(str, column.to_pylist()), rng.choice([pa.string(), pa.binary()]))
            table = table.set_column(at, name, other)
        elif pa.types.is_integer(column.type):
            value = rng.choice([-1, 127] if pa.types.is_signed_integer(column.type) else [0, 127])
            table = table.set_column(at, name, pa.array([value] * len(table), column.type))
        else:
            table = table.set_column(at, name, pa.nulls(len(table), column.type))
        pq.write_table(table, path)
    return kind


@pytest.mark.parametrize("name", ["first", "second", "cut"])
def test_tables(results, tmp_path, capfd, name):
    (results / "truth.tsv").write_text("a\tb\n")
    rng = random.Random(name)
    for _ in range(25):
        copy = tmp_path / "copy"
        shutil.copytree(results / name, copy)
        path = rng.choice(sorted(copy.rglob("*.parquet")))
        change = altered(rng, path), path.relative_to(copy)
        for words in readers(results, name):
            code = main([word.format(copy) for word in words])
            error = capfd.readouterr().err
            assert code in (0, 2), (words, change, error)
            assert "Traceback" not in error
        shutil.rmtree(copy)


@pytest.mark.parametrize("name", ["summary.json", "documents", "link"])
@pytest.mark.parametrize("result", ["first", "cut"])
def test_links_are_not_followed(results, tmp_path, capfd, name, result):
    copy, elsewhere = tmp_path / "copy", tmp_path / "elsewhere"
    shutil.copytree(results / result, copy)
    if name == "link":
        elsewhere.write_text("a secret")
    else:
        (copy / name).rename(elsewhere)
    (copy / name).symlink_to(elsewhere)
    for words in readers(results, result):
        assert main([word.format(copy) for word in words]) == 2, words
        error = capfd.readouterr().err.splitlines()[-1]
        assert error == f"mr-dedup: error: {copy}: its {name!r} is not a regular file"
    assert not (tmp_path / "copy-made").exists()


@pytest.mark.parametrize("key", ["version", "run", "done", None])
def test_manifests(results, tmp_path, capfd, monkeypatch, key):
    out, work = tmp_path / "out", tmp_path / ".out.unfinished"
    words = ["dedup", str(results / "docs.jsonl"), "-o", str(out)]
    usual = Stages.finish

    def stopped(self, name, *completed):
        usual(self, name, *completed)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stages, "finish", stopped)
        assert main(words) == 130
    manifest = json.loads((work / "manifest.json").read_bytes())
    for value in [*VALUES, {"fingerprint": {"files": {"../../x": "0"}, "values": {}}}]:
        content = value if key is None else {**manifest, key: value}
        (work / "manifest.json").write_text(json.dumps(content))
        capfd.readouterr()
        code = main([*words, "--resume"])
        error = capfd.readouterr().err
        assert code == 2, (value, error)
        assert "bug" not in error


def test_values_of_manifests(results, tmp_path, capfd, monkeypatch):
    """A value of any stage that is not the one it had is damage, never a bug."""
    out, manifest = tmp_path / "out", tmp_path / ".out.unfinished" / "manifest.json"
    words = ["dedup", str(results / "docs.jsonl"), "-o", str(out)]
    usual = Stages.finish

    def stopped(self, name, *completed):
        usual(self, name, *completed)
        if name == "keep":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stages, "finish", stopped)
        assert main(words) == 130
    content = manifest.read_bytes()
    generator = random.Random(0)
    for _ in range(200):
        damaged = json.loads(content)
        parent, key = generator.choice(list(members(damaged)))
        if generator.random() < 0.2:
            del parent[key]
        else:
            parent[key] = generator.choice([each for each in VALUES if each != parent[key]])
        manifest.write_text(json.dumps(damaged))
        capfd.readouterr()
        assert main([*words, "--resume"]) == 2, damaged
        assert str(manifest) in capfd.readouterr().err
    manifest.write_bytes(content)
    assert main([*words, "--resume"]) == 0


def members(value):
    """Yield each object or list within a JSON value, with each of its keys."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from members(value[key])
