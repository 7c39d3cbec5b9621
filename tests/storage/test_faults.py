"""Stores that fail, for a moment or for good: every wait is bounded, every error is one line."""

import time

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.errors import ChangedError
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import exists, file_info, list_files
from mr_dedup.storage.retries import Retries
from mr_dedup.storage.stores import STORES, _class_of, _options, store_of
from mr_dedup.storage.writing import put, read_small
from tests.storage import servers, stores
from tests.storage.servers import Fault, free_port
from tests.storage.test_fetching import LARGE

QUICK = Retries(3, 0.01, 0.02)


@pytest.fixture
def place(proxied, quick):
    return proxied


def refusing(place, pattern, kind, times=1 << 30):
    fault = Fault(pattern, kind, times)
    place.proxy.faults.append(fault)
    return fault


DATA = r"GET .*a\.bin.*bytes="
"""A request that reads."""


@pytest.mark.parametrize("kind", [500, 503, 429, "close", "reset"])
def test_a_failure_that_passes(place, tmp_path, kind):
    place.write("a.bin", LARGE)
    file = file_info(place.of("a.bin"))
    fault = refusing(place, DATA, kind, 2)
    fetch(file, tmp_path / "copy", retries=QUICK)
    assert (tmp_path / "copy").read_bytes() == LARGE
    assert fault.met == 2


@pytest.mark.parametrize("kind", [500, 503, "reset"])
def test_a_listing_that_fails_for_a_moment(place, kind):
    place.write("a.bin", b"content")
    fault = refusing(place, r"(GET|HEAD|POST) ", kind, 2)
    wanted = place.uri if place.lists else place.of("a.bin")
    assert [file.size_bytes for file in list_files([wanted])] == [7]
    assert fault.met == 2


@pytest.mark.parametrize("kind", [500, 503, "reset"])
def test_an_upload_that_fails_for_a_moment(s3, gs, quick, tmp_path, kind):
    (tmp_path / "a.bin").write_bytes(b"content")
    for place in (s3, gs):
        fault = refusing(place, "(PUT|POST) ", kind, 2)
        put(tmp_path / "a.bin", place.of("a.bin"))
        assert place.read("a.bin") == b"content"
        assert fault.met == 2


@pytest.mark.parametrize("kind", [500, 503, 403, "close", "reset"])
def test_a_failure_that_stays_is_one_line_with_the_uri(place, tmp_path, kind, capfd):
    place.write("a.bin", LARGE[:1000])
    file = file_info(place.of("a.bin"))
    refusing(place, DATA, kind)
    with pytest.raises(MrDedupError) as error:
        fetch(file, tmp_path / "copy", retries=QUICK)
    message = str(error.value)
    assert message.startswith(f"{place.of('a.bin')}: ")
    assert "\n" not in message
    if kind == 403:
        assert "access denied" in message
    assert not isinstance(error.value, ChangedError)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["close", "reset", 500])
def test_a_stream_that_ends_too_early(web, quick, tmp_path, kind):
    web.write("a.bin", LARGE, has_length=False)
    file = file_info(web.of("a.bin"))
    fault = refusing(web, r"GET .*a\.bin", kind, 2)
    fetch(file, tmp_path / "copy", retries=QUICK)
    assert (tmp_path / "copy").read_bytes() == LARGE
    assert fault.met == 2


def test_a_stream_that_never_ends_whole(web, quick, tmp_path):
    web.write("a.bin", LARGE, has_length=False)
    file = file_info(web.of("a.bin"))
    refusing(web, r"GET .*a\.bin", "close")
    with pytest.raises(MrDedupError, match=r"a\.bin: "):
        fetch(file, tmp_path / "copy", retries=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_gcs_with_another_generation(gs, tmp_path):
    """The emulator sends what is there now, the store itself reports that there is none."""
    gs.write("a.bin", b"one")
    file = file_info(gs.of("a.bin"))
    assert file.version.isdecimal()
    refusing(gs, f"GET .*generation={file.version}", 404)
    with pytest.raises(ChangedError):
        fetch(file, tmp_path / "copy")


def impatient(kind):
    """Options of fsspec for a store whose requests time out after a tenth of a second."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=0.1, sock_read=0.1)
    return {
        "s3": {
            "config_kwargs": {
                "connect_timeout": 0.1,
                "read_timeout": 0.1,
                "retries": {"mode": "standard", "max_attempts": 2},
            }
        },
        "gs": {"requests_timeout": timeout},
        "http": {"client_kwargs": {"timeout": timeout}},
    }[kind]


@pytest.mark.parametrize("kind", ["s3", "gs", "http"])
@pytest.mark.parametrize("fault", ["hang", "unreachable"])
def test_a_server_that_never_responds(request, quick, kind, fault, capfd):
    place = request.getfixturevalue("web" if kind == "http" else kind)
    place.write("a.bin", b"content")
    if fault == "hang":
        refusing(place, "", "hang")
        uri, variables = place.of("a.bin"), {}
    else:
        nowhere = f"http://127.0.0.1:{free_port()}"
        uri = place.of("a.bin").replace(place.proxy.uri, nowhere)
        variables = {"AWS_ENDPOINT_URL": nowhere, "STORAGE_EMULATOR_HOST": nowhere}
    with stores.environment(**variables), stores.configured(**{kind: impatient(kind)}):
        begun = time.monotonic()
        for request_of in (file_info, exists, read_small, lambda uri: list_files([uri])):
            with pytest.raises(MrDedupError) as error:
                request_of(uri)
            message = str(error.value)
            assert message.startswith(f"{uri}: ")
            assert "no such file" not in message
            assert "\n" not in message
    assert time.monotonic() - begun < 20
    assert capfd.readouterr() == ("", "")


def test_every_store_has_limits_of_time():
    """Also those that the tests above make shorter."""
    for scheme in ("s3", "gs", "http", "az"):
        store = STORES[scheme]
        assert "timeout" in str(_options(store, _class_of(store, scheme)))


def test_a_hub_that_never_responds(hf, quick, monkeypatch, tmp_path):
    import huggingface_hub.constants

    hf.write("a.bin", b"content")
    file = file_info(hf.of("a.bin"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.1)
    refusing(hf, "/resolve/", "hang")
    with pytest.raises(MrDedupError, match=r"a\.bin: the store did not respond in time$"):
        fetch(file, tmp_path / "copy", retries=Retries(1))
    assert list(tmp_path.iterdir()) == []


def test_pieces_that_fail_do_not_change_others(s3, quick, tmp_path):
    s3.write("a.bin", LARGE)
    file = file_info(s3.of("a.bin"))
    fault = refusing(s3, f"bytes={servers.PIECE_BYTES}-", "close", 1)
    fetch(file, tmp_path / "copy", retries=QUICK)
    assert (tmp_path / "copy").read_bytes() == LARGE
    assert fault.met == 1
    reads = [each for each in s3.proxy.requests if each.startswith("GET") and "a.bin" in each]
    begins = sorted(int(each.partition("bytes=")[2].partition("-")[0]) for each in reads)
    # the second piece goes on where its connection was closed
    first, second, again, third = begins
    assert (first, second, third) == (0, servers.PIECE_BYTES, 2 * servers.PIECE_BYTES)
    assert second < again < third


def test_a_large_piece_goes_on_however_often_it_is_interrupted(s3, quick, tmp_path, monkeypatch):
    content = LARGE * 8
    s3.write("a.bin", content)
    monkeypatch.setitem(vars(store_of(s3.uri)), "piece_bytes", len(content))
    fault = refusing(s3, DATA, "close", 4)
    fetch(file_info(s3.of("a.bin")), tmp_path / "copy", retries=Retries(1))
    assert (tmp_path / "copy").read_bytes() == content
    assert fault.met == 4
