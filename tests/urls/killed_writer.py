"""A process that adds and removes URLs until it is killed, saying before and after what it does.

``python -m tests.urls.killed_writer FOLDER LOG FIRST``: work number FIRST, FIRST + 1, … is done on
the filter in FOLDER. Each is a line ``begin N`` in LOG, and when it was acknowledged ``end N``.
"""

import os
import random
import sys

from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.counting_bloom import BloomShape, CountingBloom
from mr_dedup.urls.digests import grouped
from mr_dedup.urls.opening import open_filter
from tests.urls.made_urls import digests_of_numbers, url

UNIVERSE = 3000

# small enough to be full everywhere, and to be outgrown
SHAPE = BloomShape(200, 1500, 2, 4)


def work(number):
    """What is done as work ``number``: a kind, and the numbers of URLs."""
    rng = random.Random(number)
    kind = rng.choices(["add", "remove", "save", "rebuild"], [60, 36, 3, 1])[0]
    size = rng.choice([1, 1, 30, 700])
    return kind, rng.choices(range(UNIVERSE), k=size)


def load_kernels():
    """Have all compiled code loaded: else most kills would come while it is."""
    bloom = CountingBloom(SHAPE)
    digests = digests_of_numbers([1, 2])
    digests = digests[grouped(digests)[0]]
    bloom.raise_(digests)
    bloom.may_know(digests)
    bloom.lower(digests)


def main(folder, log, first):
    load_kernels()
    with open_filter(folder, form=UrlForm(canonical=False), shape=SHAPE) as url_filter:
        say = os.open(log, os.O_WRONLY | os.O_APPEND)
        number = first
        while True:
            kind, numbers = work(number)
            os.write(say, b"begin %d\n" % number)
            if kind == "add":
                url_filter.add_many(map(url, numbers))
            elif kind == "remove":
                url_filter.remove_many(map(url, numbers))
            elif kind == "save":
                url_filter.save()
            else:
                url_filter.rebuild()
            os.write(say, b"end %d\n" % number)
            number += 1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
