"""The manifest, and how it is chosen and locked."""

import itertools

import pytest

from bench.field.choose import _position, evenly
from bench.field.lock import locked
from bench.field.packages import MANIFEST, Package, read_manifest, write_manifest
from bench.field.parts import Summary, Taken

PACKAGES = [
    Package("npm", "@a/b", "1.0", "0" * 64),
    Package("debian", "c", "1:2~3+4", ""),
    Package("npm", "@a/b", "1.1", ""),
]


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    write_manifest(PACKAGES, tmp_path / "manifest.tsv")
    assert read_manifest(tmp_path / "manifest.tsv") == PACKAGES


@pytest.mark.parametrize(
    "line", ["npm\ta\t1", "cran\ta\t1\t", "", "npm\ta\t1\t\t", "npm\ta\t1\t\nnpm\ta\t1\t"]
)
def test_a_wrong_line_is_named(line, tmp_path):
    path = tmp_path / "manifest.tsv"
    path.write_text(f"go\tb\tv1\t\n{line}\n")
    with pytest.raises(ValueError, match=r"manifest\.tsv:[23]: "):
        read_manifest(path)


def test_the_manifest_is_ordered_by_a_hash_of_names_with_releases_together():
    packages = read_manifest(MANIFEST)
    names = list(dict.fromkeys(package[:2] for package in packages))
    assert [name for name, _ in itertools.groupby(packages, key=lambda each: each[:2])] == names
    assert names == sorted(names, key=lambda name: _position(Package(*name, "", "")))


def test_the_manifest_has_checksums_of_all_that_debian_has():
    assert all(package.sha256 for package in read_manifest() if package.registry == "debian")


@pytest.mark.parametrize("count", range(1, 9))
def test_releases_are_spread_evenly(count):
    versions = [str(number) for number in range(6)]
    few = evenly(versions, count)
    assert len(few) == min(count, 6)
    assert few[-1] == "5"
    assert list(few) == sorted(set(few))


def test_locking_adds_checksums_and_removes_what_failed():
    summary = Summary([Taken("debian:c@1:2~3+4", "f" * 64, 1, 2, "")], {"npm:@a/b@1.1": "gone"})
    first, second, _ = PACKAGES
    assert locked(PACKAGES, summary) == [first, second._replace(sha256="f" * 64)]
