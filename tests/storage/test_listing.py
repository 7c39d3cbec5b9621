"""What names of files, directories and patterns stand for, in stores of each kind."""

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.listing import exists, file_info, files_below, is_directory, list_files

STRANGE = [
    "a b.jsonl",
    "naïve 北京.jsonl",
    "part#1.jsonl",
    "why?.jsonl",
    "100%.jsonl",
    "a%20b.jsonl",
    "a+b.jsonl",
    "a&b=c.jsonl",
    "semi;colon.jsonl",
    "quote'd.jsonl",
    "a::b.jsonl",
    "tilde~.jsonl",
    "[x].jsonl",
    "at@sign.jsonl",
]


def strange_names(place):
    # Hadoop's names have no colons; the emulator of GCS ends a name at a semicolon
    refused = {"hdfs": ":", "gs": ";"}.get(place.scheme)
    return [name for name in STRANGE if refused is None or refused not in name]


def found(place, *names):
    """The files that names stand for, by their paths in the directory of the test."""
    start = f"{place.uri}/"
    return [file.uri.removeprefix(start) for file in list_files([place.of(n) for n in names])]


def test_a_directory_is_read_with_all_below_it_in_the_order_of_local_paths(listing):
    wanted = ["a/b.txt", "a/c/1.txt", "a/c/2.txt", "a/d.txt", "a.txt", "day=2/hour=10/x.txt"]
    listing.fill(*reversed(wanted))
    listing.fill("_SUCCESS", "a/_SUCCESS", "a/.part", "a/_temporary/0/x.txt", "_temporary/y.txt")
    assert found(listing, "") == wanted
    assert found(listing, "a/") == found(listing, "a") == wanted[:4]
    below = [file.uri.removeprefix(f"{listing.uri}/") for file in files_below(listing.uri)]
    assert len(below) == len(wanted) + 5
    assert below == sorted(below, key=lambda name: name.split("/"))


def test_names_are_in_the_order_given(listing):
    listing.fill("b.txt", "a.txt", "c/1.txt")
    assert found(listing, "b.txt", "c", "a.txt", "b.txt") == ["b.txt", "c/1.txt", "a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("*.jsonl", ["a.jsonl", "b.jsonl", "c.jsonl"]),
        ("?.jsonl", ["a.jsonl", "b.jsonl", "c.jsonl"]),
        ("[a-b].jsonl", ["a.jsonl", "b.jsonl"]),
        ("[!a-b].jsonl", ["c.jsonl"]),
        ("{a,c}.jsonl", ["a.jsonl", "c.jsonl"]),
        ("{a.jsonl,2023/02/*}", ["2023/02/x.jsonl", "a.jsonl"]),
        ("*/*/x.jsonl", ["2023/01/x.jsonl", "2023/02/x.jsonl", "2024/01/x.jsonl"]),
        ("2023/*", ["2023/01/x.jsonl", "2023/02/x.jsonl", "2023/y.jsonl"]),
        ("202[34]/01", ["2023/01/x.jsonl", "2024/01/x.jsonl"]),
        ("2023/**", ["2023/01/x.jsonl", "2023/02/x.jsonl", "2023/y.jsonl"]),
        ("**/y.jsonl", ["2023/y.jsonl"]),
        ("**/a.jsonl", ["a.jsonl"]),
        ("2*/**/x.jsonl", ["2023/01/x.jsonl", "2023/02/x.jsonl", "2024/01/x.jsonl"]),
        ("_hidden/*", ["_hidden/h.jsonl"]),
        ("*/.h*", ["2024/.h.jsonl"]),
        (r"a\.jsonl", ["a.jsonl"]),
    ],
)
def test_patterns(patterns, pattern, wanted):
    assert found(patterns, pattern) == wanted


@pytest.fixture
def patterns(listing):
    listing.fill("a.jsonl", "b.jsonl", "c.jsonl", "2023/01/x.jsonl", "2023/02/x.jsonl")
    listing.fill("2023/y.jsonl", "2024/01/x.jsonl", "_hidden/h.jsonl", "2024/.h.jsonl", "x.txt")
    return listing


def test_names_with_strange_characters(listing):
    names = strange_names(listing)
    listing.fill(*names)
    assert sorted(found(listing, "")) == sorted(names)
    for name in names:
        # also those that are patterns: what exists is a name
        assert found(listing, name) == [name]
        assert file_info(listing.of(name)).size_bytes == len(name.encode())


def test_a_wildcard_in_a_name_is_escaped(listing):
    listing.fill("[x].jsonl", "x.jsonl", "dir/*.jsonl", "dir/a.jsonl")
    assert found(listing, "[[]x].jsonl") == ["[x].jsonl"]
    assert found(listing, r"\[x\].jsonl") == ["[x].jsonl"]
    assert found(listing, r"dir/\*.jsonl") == ["dir/*.jsonl"]
    assert found(listing, "dir/*.jsonl") == ["dir/*.jsonl"]
    assert found(listing, "[x-z].jsonl") == ["x.jsonl"]


def test_empty_files_are_files(listing):
    listing.write("empty.jsonl", b"")
    assert found(listing, "") == found(listing, "empty.jsonl") == ["empty.jsonl"]
    assert list_files([listing.uri])[0].size_bytes == 0


def test_a_pattern_lists_no_other_directory(listing):
    """A year of a crawl may have millions of files beside those that are wanted."""
    listing.fill("2023/wet/a.gz", "2023/warc/b.gz", "2024/wet/c.gz", "2024/warc/d.gz")
    if listing.proxy is not None:
        listing.proxy.requests.clear()
    assert found(listing, "*/wet/*.gz") == ["2023/wet/a.gz", "2024/wet/c.gz"]
    if listing.proxy is not None:
        assert not [each for each in listing.proxy.requests if "warc" in each]


def test_markers_of_directories_are_no_files(s3, gs):
    for place in (s3, gs):
        place.write("dir/", b"")
        place.write("empty/", b"")
        place.write("old_$folder$", b"")
        place.write("dir/a.jsonl", b"{}")
        assert found(place, "") == found(place, "dir") == found(place, "*") == ["dir/a.jsonl"]
        with pytest.raises(MrDedupError, match="empty: contains no files"):
            found(place, "empty")


def test_names_with_two_slashes(s3, gs):
    for place in (s3, gs):
        place.fill("a//b.jsonl", "a/c.jsonl", "a/d//e.jsonl")
        assert found(place, "") == ["a//b.jsonl", "a/c.jsonl", "a/d//e.jsonl"]
        assert found(place, "a") == ["a//b.jsonl", "a/c.jsonl", "a/d//e.jsonl"]


def test_directories_of_more_files_than_a_page(s3, hf):
    names = [f"{number:05}.jsonl" for number in range(2001)]
    s3.fill_quickly(*names, "sub/x.jsonl")
    hf.fill(*names, "sub/x.jsonl")
    for place in (s3, hf):
        assert found(place, "") == [*names, "sub/x.jsonl"]
        assert found(place, "*.jsonl") == names


def test_a_file_and_what_is_said_of_it(place):
    place.write("a.jsonl", b"twelve bytes")
    info = file_info(place.of("a.jsonl"))
    assert (info.uri, info.size_bytes) == (place.of("a.jsonl"), 12)
    assert list_files([info.uri]) == [info]
    before = info.version
    place.write("a.jsonl", b"twelve BYTES")
    assert file_info(info.uri).version != before


def test_what_a_directory_says_of_a_file_is_what_the_file_says(listing):
    listing.fill("a.jsonl", "b/c.bin")
    listed = list_files([listing.uri])
    assert listed == [file_info(listing.of("a.jsonl")), file_info(listing.of("b/c.bin"))]


def test_what_exists(listing):
    listing.fill("dir/a.jsonl", "file", "file2/b")
    for name, kind in (("dir", "d"), ("dir/a.jsonl", "f"), ("file", "f"), ("di", ""), ("x/y", "")):
        assert exists(listing.of(name)) == (kind != ""), name
        assert is_directory(listing.of(name)) == (kind == "d"), name
    assert not exists(listing.no_bucket)
    assert files_below(listing.of("none")) == []
    with pytest.raises(MrDedupError, match=r"dir: is a directory, expected a file$"):
        file_info(listing.of("dir"))


def test_a_web_server_has_files_only(web):
    web.fill("a.jsonl")
    assert exists(web.of("a.jsonl"))
    assert not exists(web.of("b.jsonl"))
    assert not is_directory(web.uri)


def test_a_revision_of_a_repository(hf):
    hf.fill("a.jsonl", "b/c.jsonl")
    for revision in ("main", "refs/pr/1", "refs%2Fpr%2F1"):
        uri = hf.uri.replace("farm/crawl", f"farm/crawl@{revision}")
        files = list_files([uri, f"{uri}/*.jsonl"])
        assert [file.uri for file in files] == [
            f"{uri}/{n}" for n in ("a.jsonl", "b/c.jsonl", "a.jsonl")
        ]


@pytest.mark.parametrize("name", ["none.jsonl", "none/", "*.none", "empty*/x", "{a,b}.txt"])
def test_names_of_nothing_are_errors(listing, name):
    listing.fill("a.jsonl")
    with pytest.raises(MrDedupError, match=r"(no such file|contains no files)$") as error:
        found(listing, name)
    assert listing.of(name).rstrip("/") in str(error.value)
