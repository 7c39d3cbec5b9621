"""Corpora made from archives in a cache: the same bytes, resumed, enlarged, with bad archives."""

import hashlib
import itertools
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
import pytest

from bench.field import corpus, lock
from bench.field.documents import SCHEMA, documents_of
from bench.field.fetching import archive_path, fetch, sha256_of
from bench.field.packages import Package, PackageError, read_manifest, write_manifest
from bench.field.parts import Summary
from tests.bench.field.made_archives import deb, tgz, zipped

PROSE = "Eine Anleitung von vielen Wörtern, some in English. " * 20


def made(cache, registry, name, files):
    """Put the archive of a package into the cache; return it with its checksum."""
    package = Package(registry, name, "1", "")
    path = archive_path(package, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    {"debian": deb, "go": zipped, "npm": tgz, "pypi": zipped}[registry](path, files)
    return package._replace(sha256=sha256_of(path))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def source(cache):
    """Archives that are kept, read by threads, which start faster than processes."""
    with ThreadPoolExecutor(2) as pool:
        yield corpus.Source(pool, cache, keep_archives=True)


@pytest.fixture
def packages(cache):
    """Nine packages of all registries with 3 documents each, one of them closed, one damaged."""
    texts = [(f"{i}.txt", f"{i} {PROSE}".encode()) for i in range(3)]
    licence = [("package/package.json", b'{"license": "MIT"}')]
    metadata = [("a.dist-info/METADATA", b"License: BSD\n\nText")]
    found = [
        made(cache, "npm", "@scope/a", licence + texts),
        made(cache, "npm", "closed", [("package/package.json", b'{"license": "BUSL"}'), *texts]),
        made(cache, "debian", "b", texts),
        made(
            cache, "go", "example.org/c", [("example.org/c@1/LICENSE", b"Apache License"), *texts]
        ),
        made(cache, "pypi", "d", texts + metadata),
    ]
    damaged = made(cache, "debian", "e", texts)
    path = archive_path(damaged, cache)
    path.write_bytes(path.read_bytes()[:-100])
    found.append(damaged._replace(sha256=sha256_of(path)))
    return found + [made(cache, "npm", f"f{i}", licence + texts) for i in range(3)]


def rows_of(folder):
    paths = sorted(folder.glob("*.parquet"))
    return list(itertools.chain(*(pq.read_table(path).to_pylist() for path in paths)))


def bytes_of(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_corpus_has_the_documents_of_the_packages_in_their_order(packages, source, tmp_path):
    summary = corpus.make_corpus(packages, 10**9, tmp_path / "out", source)
    rows = rows_of(tmp_path / "out")
    good = [package for package in packages if package.name not in ("closed", "e")]
    expected = [(f"{p}/{i}.txt", f"{i} {PROSE}", "prose", str(p)) for p in good for i in range(3)]
    assert [tuple(row.values()) for row in rows] == expected
    assert pq.read_schema(tmp_path / "out/part-0000.parquet").equals(SCHEMA)
    stored = json.loads((tmp_path / "out/corpus.json").read_text())
    assert stored == summary.as_json()
    size = sum(len(row["text"].encode()) for row in rows)
    assert (stored["documents"], stored["text_bytes"]) == (21, size)
    assert stored["kinds"] == {"prose": {"documents": 21, "text_bytes": size}}
    assert [each["package"] for each in stored["packages"]] == [str(package) for package in good]
    assert [each["archive_sha256"] for each in stored["packages"]] == [p.sha256 for p in good]


def test_bad_packages_are_counted_with_the_reason(packages, source, tmp_path, capfd):
    summary = corpus.make_corpus(packages, 10**9, tmp_path / "out", source)
    assert summary.errors.keys() == {"npm:closed@1", "debian:e@1"}
    assert summary.errors["npm:closed@1"] == "npm:closed@1: licence: BUSL"
    assert summary.errors["debian:e@1"].startswith("debian:e@1: ")
    messages = capfd.readouterr().err
    assert all(error in messages for error in summary.errors.values())


def test_the_same_manifest_makes_the_same_bytes(packages, source, tmp_path):
    for name in ("one", "two"):
        corpus.make_corpus(packages, 10**9, tmp_path / name, source, part_bytes=5000)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    assert (tmp_path / "one/part-0003.parquet").exists()


def test_a_small_corpus_has_several_parts(packages, source, tmp_path):
    """As many tools run a task for each file: of 20,000 bytes a part has an eighth."""
    summary = corpus.make_corpus(packages, 20_000, tmp_path / "out", source)
    assert len(list((tmp_path / "out").glob("part-*"))) == len(summary.packages) == 7


@pytest.mark.parametrize("begun", [1, 4_000, 9_000, 14_000])
def test_an_enlarged_corpus_is_the_same_as_a_large_one(begun, packages, source, tmp_path):
    options = {"part_bytes": 5000}
    corpus.make_corpus(packages, 10**9, tmp_path / "large", source, **options)
    small = corpus.make_corpus(packages, begun, tmp_path / "grown", source, **options)
    large = rows_of(tmp_path / "large")
    assert rows_of(tmp_path / "grown") == large[: small.documents]
    corpus.make_corpus(packages, 10**9, tmp_path / "grown", source, **options)
    assert bytes_of(tmp_path / "grown") == bytes_of(tmp_path / "large")


def test_an_interrupted_run_is_resumed_without_what_it_wrote(packages, source, tmp_path):
    corpus.make_corpus(packages, 10**9, tmp_path / "whole", source, part_bytes=5000)
    out = tmp_path / "out"
    shutil.copytree(tmp_path / "whole", out)
    # as if killed while the third part was written
    for path in ["corpus.json", *(f"_parts/part-000{i}.json" for i in range(2, 4))]:
        (out / path).unlink()
    (out / "part-0003.parquet").unlink()
    (out / "part-0002.parquet").write_bytes(b"of an interrupted run")
    for package in packages[:3]:  # the first parts have them
        archive_path(package, source.cache).unlink()
    corpus.make_corpus(packages, 10**9, out, source, part_bytes=5000)
    assert bytes_of(out) == bytes_of(tmp_path / "whole")


def test_parts_of_another_manifest_are_refused(packages, source, tmp_path):
    options = {"part_bytes": 1}
    corpus.make_corpus(packages, 10_000, tmp_path, source, **options)
    with pytest.raises(ValueError, match="another manifest"):
        corpus.make_corpus(packages[1:], 10**10, tmp_path, source, **options)


def test_a_manifest_that_was_locked_meanwhile_is_resumed(packages, source, tmp_path):
    manifest = tmp_path / "manifest.tsv"
    unlocked = [package._replace(sha256="") for package in packages]
    write_manifest(unlocked, manifest)
    options = {"part_bytes": 5000}
    corpus.make_corpus(unlocked, 13_000, tmp_path / "out", source, **options)
    lock.main([str(tmp_path / "out"), "--manifest", str(manifest)])
    packages_left = read_manifest(manifest)
    good = [package for package in packages if package.name not in ("closed", "e")]
    assert packages_left == good[:5] + unlocked[-2:]
    corpus.make_corpus(packages_left, 10**9, tmp_path / "out", source, **options)
    corpus.make_corpus(packages, 10**9, tmp_path / "whole", source, **options)
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "whole")


def test_archives_are_removed_once_their_part_is_written(packages, source, tmp_path):
    corpus.make_corpus(packages, 10**9, tmp_path / "out", source._replace(keep_archives=False))
    assert not any(archive_path(package, source.cache).exists() for package in packages)


def test_no_more_than_its_bytes_are_taken_of_a_package(cache):
    texts = [(f"{i}.txt", f"{i} {PROSE}".encode()) for i in range(9)]
    metadata = [("a.dist-info/METADATA", b"License: BSD\n\nText")]
    package = made(cache, "pypi", "large", [*texts, *metadata])
    found = documents_of(package, cache, package_bytes=2500)
    assert found.error == ""
    assert found.table.num_rows == 3
    assert found.skipped == {"beyond the bytes taken of a package": 7}


def test_a_path_that_occurs_twice_is_one_document(cache):
    texts = [(name, PROSE.encode()) for name in ("a.txt", "./a.txt", "b.txt")]
    package = made(cache, "npm", "twice", [("p/package.json", b'{"license": "MIT"}'), *texts])
    found = documents_of(package, cache)
    assert found.table["id"].to_pylist() == ["npm:twice@1/a.txt", "npm:twice@1/b.txt"]
    assert found.skipped["a path that the archive has twice"] == 1


def test_an_archive_with_the_right_checksum_is_not_fetched_again(cache):
    package = made(cache, "npm", "not-served-by-any-registry-0", [("a.txt", b"")])
    assert fetch(package, cache) == archive_path(package, cache)


@pytest.mark.skipif(not shutil.which("apt-get"), reason="apt-get is not installed")
def test_an_archive_with_another_checksum_is_fetched_again(cache):
    package = made(cache, "debian", "not-served-by-any-registry-0", [("a.txt", b"")])
    with pytest.raises(PackageError, match="not-served-by-any-registry-0@1: apt-get: E: "):
        fetch(package._replace(sha256="0" * 64), cache)
    assert not archive_path(package, cache).exists()


def test_packages_whose_client_is_not_installed_are_reported(source, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    absent = [Package(registry, "a", "1", "") for registry in ("debian", "npm", "go", "pypi")]
    summary = corpus.make_corpus(absent, 10**9, tmp_path / "out", source)
    assert list(summary.errors.values()) == [
        f"{package}: {client} is not installed"
        for package, client in zip(absent, ("apt-get", "npm", "go", "pip"), strict=True)
    ]
    assert (summary.documents, (tmp_path / "out/corpus.json").exists()) == (0, True)


def test_the_command_prints_what_it_made(packages, cache, tmp_path, capfd):
    manifest, out = tmp_path / "manifest.tsv", tmp_path / "out"
    write_manifest(packages, manifest)
    corpus.main(["0.00000001", str(out), "--cache", str(cache), "--manifest", str(manifest)])
    printed = capfd.readouterr()
    assert printed.out == f"3 documents, 0.00 GB of text in {out}; 0 packages skipped\n"
    assert Summary.read(out / "corpus.json").documents == 3


def test_a_wrong_manifest_is_a_usage_error(tmp_path, capsys):
    manifest = tmp_path / "manifest.tsv"
    manifest.write_text("one column\n")
    with pytest.raises(SystemExit) as ended:
        corpus.main(["1", str(tmp_path / "out"), "--manifest", str(manifest)])
    assert ended.value.code == 2
    assert "manifest.tsv:1: " in capsys.readouterr().err
