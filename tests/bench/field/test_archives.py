"""Reading archives of packages: real ones, large files in them, and damaged ones."""

import io
import tarfile

import pytest

from bench.field import archives
from bench.field.archives import ArchivedFile, ArchiveError, Unread, files_of
from tests.bench.field.made_archives import deb, gz, tgz, zipped

FILES = [
    ("doc/index.html", b"<p>one</p>" * 40),
    ("doc/guide.txt", "ein Wörterbuch".encode() * 30),
    ("doc/logo.png", b"\x89PNG" * 10),
]


def contents(archive, **options):
    return dict(files_of(archive, **options))


@pytest.mark.parametrize("make", [deb, tgz, zipped])
def test_all_formats_yield_the_files_they_were_made_of(make, tmp_path):
    assert contents(make(tmp_path / "archive", FILES)) == dict(FILES)


@pytest.mark.parametrize("compression", ["gzip", "xz", "zstd", "none"])
def test_debian_packages_of_any_compression_are_read(compression, tmp_path):
    assert contents(deb(tmp_path / "archive", FILES, compression)) == dict(FILES)


@pytest.mark.parametrize("make", [deb, tgz, zipped])
def test_compressed_files_have_their_content_and_no_suffix(make, tmp_path):
    archive = make(tmp_path / "archive", [("doc/NEWS.gz", gz(b"news" * 100))])
    assert list(files_of(archive)) == [ArchivedFile("doc/NEWS", b"news" * 100)]


@pytest.mark.parametrize("make", [deb, tgz, zipped])
def test_files_that_are_not_wanted_are_not_read(make, tmp_path):
    archive = make(tmp_path / "archive", FILES)
    found = contents(archive, wanted=lambda path: path.endswith(".txt"))
    assert found == {path: Unread.UNWANTED for path, _ in FILES} | {FILES[1][0]: FILES[1][1]}


@pytest.mark.parametrize("make", [deb, tgz, zipped])
def test_files_up_to_the_limit_are_read_and_no_larger_ones(make, tmp_path):
    archive = make(
        tmp_path / "archive",
        [("fits", b"a" * 1000), ("large", b"a" * 1001), ("bomb.gz", gz(bytes(50_000_000)))],
    )
    assert contents(archive, max_bytes=1000) == {
        "fits": b"a" * 1000,
        "large": Unread.LARGE,
        "bomb": Unread.LARGE,
    }


@pytest.mark.parametrize("make", [deb, tgz, zipped])
def test_a_damaged_compressed_file_does_not_end_the_archive(make, tmp_path):
    archive = make(tmp_path / "archive", [("a.gz", b"no gzip" * 50), ("b", b"text")])
    assert contents(archive) == {"a": Unread.DAMAGED, "b": b"text"}


def test_links_and_devices_are_not_files(tmp_path):
    archive = tmp_path / "archive"
    with tarfile.open(archive, "w:gz") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            member = tarfile.TarInfo(f"of-type-{kind!r}")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
        member = tarfile.TarInfo("file")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"text"))
    assert contents(archive) == {"file": b"text"}


def test_a_name_that_is_not_utf_8_can_be_written_as_text(tmp_path):
    archive = tmp_path / "archive"
    with tarfile.open(archive, "w:gz", encoding="latin-1", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("caf\xe9"))
    ((path, _),) = files_of(archive)
    assert path.encode() == rb"caf\xe9"


@pytest.mark.parametrize("make", [deb, tgz, zipped])
@pytest.mark.parametrize("keep", [0, 5, 30, 200, -20])
def test_a_cut_archive_is_an_error_that_names_it(make, keep, tmp_path):
    archive = make(tmp_path / "made-1", [(f"{i}.txt", bytes([i]) * 3000) for i in range(90)])
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(ArchiveError, match=r"^made-1: "):
        list(files_of(archive))


@pytest.mark.parametrize("make", [deb, tgz, zipped])
def test_an_overwritten_archive_never_ends_otherwise_than_by_an_archive_error(make, tmp_path):
    archive = make(tmp_path / "made", FILES)
    whole = archive.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        archive.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            found = contents(archive)
        except ArchiveError:
            continue
        assert len(found) <= len(FILES)


@pytest.mark.parametrize("flags", range(256))
def test_any_flags_of_gzip_are_read_or_an_archive_error(tmp_path, flags):
    archive = tgz(tmp_path / "made", FILES)
    content = archive.read_bytes()
    archive.write_bytes(content[:3] + bytes([flags]) + content[4:])
    try:
        found = contents(archive)
    except ArchiveError:
        return
    assert found == dict(FILES)


@pytest.mark.parametrize("make", [deb, tgz, zipped])
@pytest.mark.parametrize("limit", ["MAX_FILES", "MAX_UNPACKED_BYTES"])
def test_archives_of_too_much_are_refused(make, limit, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, limit, 1)
    with pytest.raises(ArchiveError, match="more than"):
        list(files_of(make(tmp_path / "archive", FILES)))


def test_reading_may_end_early(tmp_path):
    files = files_of(deb(tmp_path / "archive", [(f"{i}", b"x" * 100_000) for i in range(50)]))
    next(files)
    files.close()
