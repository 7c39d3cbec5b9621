"""Bytes that are changed on the way, and responses that are lost."""

import base64
import hashlib

import pytest

from mr_dedup.cli.main import main
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.storage.checksums import checksum_of_head, checksum_of_response, new_digest
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import file_info
from mr_dedup.storage.writing import put
from tests.storage.servers import Fault, lost

CONTENT = bytes(range(256)) * 40


def flipped(status, headers, content):
    """What a proxy does that changes a bit of a response."""
    return status, headers, content[:77] + bytes([content[77] ^ 4]) + content[78:]


def copied(uri, tmp_path):
    fetch(file_info(uri), tmp_path / "copy")
    return (tmp_path / "copy").read_bytes()


def in_base64(kind, content):
    return base64.b64encode(hashlib.new(kind, content).digest()).decode()


HEADERS = {
    "Content-Digest of SHA-256": {"Content-Digest": f"sha-256=:{in_base64('sha256', CONTENT)}:"},
    "of several": {
        "Content-Digest": f"unixsum=:AA==:, sha-512=:{in_base64('sha512', CONTENT)}:",
    },
    "Repr-Digest": {"Repr-Digest": f"sha-256=:{in_base64('sha256', CONTENT)}:"},
    "Content-MD5": {"Content-MD5": in_base64("md5", CONTENT)},
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_response_of_a_web_server_that_is_damaged_is_read_again(web, quick, tmp_path, kind):
    web.write("a.bin", CONTENT, headers=HEADERS[kind])
    web.proxy.faults.append(Fault("GET .* bytes=", flipped, times=1))
    assert copied(web.of("a.bin"), tmp_path) == CONTENT
    assert web.proxy.faults[0].met == 1


def test_a_web_server_whose_responses_are_always_damaged(web, quick, tmp_path):
    web.write("a.bin", CONTENT, headers=HEADERS["Content-MD5"])
    web.proxy.faults.append(Fault("GET .* bytes=", flipped))
    with pytest.raises(MrDedupError, match=r"a\.bin: arrived with another checksum than"):
        copied(web.of("a.bin"), tmp_path)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("header", ["sha-256=:no:", "sha-256=", "=", "md5=:AAAA", "x" * 4000])
def test_headers_that_are_no_checksums(web, tmp_path, header):
    web.write("a.bin", CONTENT, headers={"Content-Digest": header})
    assert copied(web.of("a.bin"), tmp_path) == CONTENT
    assert checksum_of_response({"Content-MD5": header}, is_whole=False) is None


RANGES = {
    "another one": "bytes 5-10244/10240",
    "no numbers": "bytes a-b/10240",
    "negative": "bytes -1-9/10240",
    "long": f"bytes {'9' * 5000}-1/10240",
    "none": None,
}


@pytest.mark.parametrize("kind", RANGES)
def test_a_web_server_that_sends_another_range(web, quick, tmp_path, kind):
    def moved(status, headers, content):
        headers = {**headers, "Content-Range": RANGES[kind]}
        return status, headers, content

    web.write("a.bin", CONTENT)
    web.proxy.faults.append(Fault("GET .* bytes=", moved))
    with pytest.raises(FormatError, match=r"a\.bin: the server sends bytes from .*requested$"):
        copied(web.of("a.bin"), tmp_path)


@pytest.mark.parametrize("said", ["9" * 5000, "1", "0", "00"])
def test_a_web_server_that_states_another_size(web, quick, tmp_path, said):
    """Python makes no number of over 4,300 digits."""

    def other(status, headers, content):
        headers = {**headers, "Content-Range": f"bytes 0-{len(content) - 1}/{said}"}
        return status, headers, content

    web.write("a.bin", CONTENT)
    web.proxy.faults.append(Fault("GET .* bytes=", other))
    with pytest.raises(MrDedupError, match=r"a\.bin: (was changed|the server sends bytes)"):
        copied(web.of("a.bin"), tmp_path)


@pytest.mark.parametrize("size", [100, len(CONTENT) + 1])
def test_a_web_server_that_sends_a_file_of_another_size(web, quick, tmp_path, size):
    def other(status, headers, content):
        headers = {k: v for k, v in headers.items() if k not in ("Content-Range", "ETag")}
        content = (CONTENT + b"x")[:size]
        return 200, {**headers, "Content-Length": size}, content

    web.write("a.bin", CONTENT)
    web.proxy.faults.append(Fault("GET .* bytes=", other))
    with pytest.raises(MrDedupError, match=r"a\.bin: was changed while it was read"):
        copied(web.of("a.bin"), tmp_path)


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_an_object_that_is_damaged_is_no_copy(request, quick, tmp_path, kind):
    place = request.getfixturevalue(kind)
    place.write("a.bin", CONTENT)
    pattern = r"GET .*a\.bin.*" if kind == "s3" else r"GET .*a\.bin.*alt=media"
    place.proxy.faults.append(Fault(pattern, flipped, times=1))
    file = file_info(place.of("a.bin"))
    with pytest.raises(FormatError, match="arrived with another MD5 than the store's"):
        fetch(file, tmp_path / "copy")
    fetch(file, tmp_path / "copy")
    assert place.proxy.faults[0].met == 1
    assert (tmp_path / "copy").read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_write_that_is_damaged_is_repeated(request, quick, tmp_path, kind):
    """S3 compares the checksum that its package sends; of GCS the response has one."""
    place = request.getfixturevalue(kind)
    (tmp_path / "local").write_bytes(CONTENT)
    if kind == "gs":

        def other(status, headers, content):
            return status, headers, content.replace(b'"md5Hash": "', b'"md5Hash": "AAAA')

        place.proxy.faults.append(Fault("POST .*upload", other, times=1))
    put(tmp_path / "local", place.of("a.bin"), overwrite=True)
    assert place.read("a.bin") == CONTENT
    written = [each for each in place.proxy.requests if each.startswith(("PUT", "POST"))]
    assert len(written) == (2 if kind == "gs" else 1)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("times", [1, 1 << 30])
@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_write_whose_response_is_lost_is_no_failure(
    request, quick, tmp_path, kind, times, overwrite
):
    place = request.getfixturevalue(kind)
    (tmp_path / "local").write_bytes(CONTENT)
    place.proxy.faults.append(Fault("(PUT|POST) ", lost, times=times))
    put(tmp_path / "local", place.of("a.bin"), overwrite=overwrite)
    assert place.read("a.bin") == CONTENT


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_write_that_failed_is_a_failure(request, quick, tmp_path, kind):
    """Also if there is another file of as many bytes."""
    place = request.getfixturevalue(kind)
    place.write("a.bin", CONTENT[::-1])
    (tmp_path / "local").write_bytes(CONTENT)
    place.proxy.faults.append(Fault("(PUT|POST) ", 503))
    with pytest.raises(MrDedupError, match=r"a\.bin: "):
        put(tmp_path / "local", place.of("a.bin"), overwrite=True)
    assert place.read("a.bin") == CONTENT[::-1]


@pytest.mark.parametrize(
    ("kind", "expected"),
    # check values of the catalogue of CRCs
    [("crc32", "cbf43926"), ("crc32c", "e3069283"), ("md5", "25f9e794323b453885f5181f1b624d0b")],
)
def test_digests_in_parts(kind, expected):
    digest = new_digest(kind)
    for part in (b"1234", b"", b"56789"):
        digest.update(part)
    assert digest.hexdigest() == expected


def test_what_s3_reports_of_objects():
    assert checksum_of_head({"ChecksumCRC32": "y/Q5Jg=="}) == "crc32:cbf43926"
    assert checksum_of_head({"ChecksumCRC32": "y/Q5Jg==-3"}) is None
    assert checksum_of_head({"ChecksumCRC32": "y/Q5Jg==", "ChecksumType": "COMPOSITE"}) is None
    assert checksum_of_head({"ChecksumCRC32": "?"}) is None
    assert checksum_of_head({}) is None


@pytest.mark.parametrize("size", [1 << 47, 1 << 62])
def test_a_size_that_no_file_has(web, quick, tmp_path, capfd, size):
    web.write("a.jsonl", CONTENT, headers={"Content-Length": size, "ETag": '"1"'})
    assert main(["dedup", web.of("a.jsonl"), "-o", str(tmp_path / "out")]) == 2
    assert f"a.jsonl: is said to have {size} bytes" in capfd.readouterr().err
