"""Lines from map to reduce: as a stable sort by key would have them, no key in two files."""

import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.engines.streaming.shuffle import shuffle

LINES = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=9)), max_size=12)


def as_line(key, value):
    content = key if value is None else key + b"\t" + value
    return content.replace(b"\n", b"n") + b"\n"


def key_of(line):
    return line.removesuffix(b"\n").split(b"\t")[0]


@given(st.lists(LINES, max_size=4), st.integers(0, 40), st.booleans())
def test_lines_are_sorted_and_partitioned(files, size_bytes, unended):
    with tempfile.TemporaryDirectory() as folder:
        paths, lines = [], []
        for number, file in enumerate(files):
            content = [as_line(key, value) for key, value in file]
            lines += content
            paths.append(Path(folder, f"input-{number}"))
            written = b"".join(content)
            # without its end an empty last line would be none
            cut = unended and content and content[-1] != b"\n"
            paths[-1].write_bytes(written[:-1] if cut else written)
        lines = sorted(lines, key=key_of)
        count = shuffle(paths, lambda number: Path(folder, f"output-{number}"), size_bytes)
        found = [Path(folder, f"output-{number}").read_bytes() for number in range(count)]
        assert len(list(Path(folder).glob("output-*"))) == count
    assert b"".join(found) == b"".join(lines)
    for content, following in pairwise(found):
        assert len(content) >= size_bytes
        last = content.removesuffix(b"\n").split(b"\n")[-1]
        assert key_of(last) != key_of(following.split(b"\n")[0])


def test_any_number_of_files_is_sorted(tmp_path, few_files):
    paths = [tmp_path / f"input-{number}" for number in range(100)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%02d\tvalue\n" % (99 - number))
    assert shuffle(paths, lambda number: tmp_path / f"output-{number}", 1 << 20) == 1
    written = (tmp_path / "output-0").read_bytes()
    assert written == b"".join(b"%02d\tvalue\n" % key for key in range(100))
