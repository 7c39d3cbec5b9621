"""Lists of URLs with aliases, bad lines and odd ends, and what is to come of them, by a dict."""

import gzip
import random
from pathlib import Path

import zstandard

ALIASES = (
    b"http://%b/%d",
    b"HTTP://%b:80/%d",
    b"http://%b./x/../%d",
    b"http://%b/%d#part",
)
"""Ways to spell one URL of a host and a number."""

NAME = "odd [1] #é.txt"


def spelled(number, way):
    """One of the spellings of the URL of a number."""
    return ALIASES[way] % (b"host-%d.org" % (number % 7), number)


def distinct(numbers_and_lines):
    """What ``urls bulk`` must write: counts and first spellings, in the order of these."""
    counts, firsts = {}, {}
    for number, line in numbers_and_lines:
        counts[number] = counts.get(number, 0) + 1
        firsts.setdefault(number, line)
    return b"".join(b"%d\t%b\n" % (counts[number], line) for number, line in firsts.items())


def visits(count, seed=1):
    """So many URLs, their numbers and a spelling of each, many of them visited again."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        number = int(rng.paretovariate(0.6)) % (10 * count)
        found.append((number, spelled(number, rng.randrange(len(ALIASES)))))
    return found


def write_lists(folder: Path, count=4000) -> tuple[list[Path], bytes, int]:
    """Write lists of every kind; return them, what is to come of them, and their bad lines."""
    every = visits(count)
    quarter = count // 4
    lines = [line for _, line in every]
    # blank lines, line ends of other systems, no end at the end
    odd = [line + (b"\r\n\n" if at % 50 == 0 else b"\n") for at, line in enumerate(lines[:quarter])]
    odd.insert(100, b"no URL\n")
    odd.insert(200, b"http://x.org/" + b"y" * 300_000 + b"\n")
    content = {
        "a.txt.gz": gzip.compress(b"\n".join(lines[quarter : 2 * quarter])),
        "b": b"\xef\xbb\xbf" + b"\n".join([*lines[2 * quarter : 3 * quarter], b"http://[x"]),
        "c.zst": zstandard.compress(b"\n".join(lines[3 * quarter :]) + b"\n"),
        NAME: b"".join(odd),
    }
    paths = [folder / name for name in (NAME, "a.txt.gz", "b", "c.zst")]
    for path in paths:
        path.write_bytes(content[path.name])
    return paths, distinct(every), 3
