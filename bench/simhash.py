"""Simhash of texts, beside a Python reference and the ``simhash`` package.

One thread, made-up English and Chinese pages, features weighted 1 + ln t. The reference is careful
Python: a compiled regular expression, a Counter, xxhash for each distinct feature, NumPy for the
votes. The package gets the features and weights of the reference; it hashes with MD5, so its
fingerprints differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import xxhash

from bench.inputs import page_texts
from bench.measure import Mismatch, Row, case_row, interleaved, peak_bytes
from mr_dedup.features.options import FeatureOptions
from mr_dedup.fingerprints.simhash import simhash

_NAME = "simhash"
_OURS = "mr_dedup"
# the vocabulary of data_gen has no combining marks: a token is \w without the underscore
_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if the reference has other fingerprints."""
    yield from _language("english", FeatureOptions("words", 1), quick, rounds)
    yield from _language("english", FeatureOptions("words", 2), quick, rounds)
    yield from _language("chinese", FeatureOptions("characters", 4), quick, rounds)


def _language(language: str, options: FeatureOptions, quick: bool, rounds: int) -> Iterator[Row]:
    texts = page_texts(200 if quick else 2000, language)
    array = pa.array(texts, pa.large_string())
    size = sum(len(text.encode()) for text in texts)
    found = simhash(array, options)
    if found.values.tolist() != [reference(text, options) for text in texts]:
        raise Mismatch(f"{language}, {options}: the reference has other fingerprints")
    cases: dict[str, Callable[[], object]] = {
        _OURS: lambda: simhash(array, options),
        "Python reference": lambda: [reference(text, options) for text in texts],
    }
    notes = {}
    # it overflows for integer weights above 255
    prepared = [
        {feature: weight / 64 for feature, weight in zip(*_weighted(text, options), strict=True)}
        for text in texts
    ]
    try:
        from simhash import Simhash

        cases["simhash package"] = lambda: [Simhash(features).value for features in prepared]
        notes["simhash package"] = "from features and weights, not from texts"
    except ImportError:
        yield Row(_NAME, "simhash package", note="skipped: it is not installed")
    timings = interleaved(cases, rounds, f"{_NAME}, {language}")
    for case, function in cases.items():
        rate = size / timings.median(case) / 1e6
        yield case_row(
            _NAME, case, timings, _OURS,
            name=f"{case}, {language}, {options}",
            memory_bytes=peak_bytes(function),
            note="; ".join(filter(None, [f"{rate:,.1f} MB/s", notes.get(case, "")])),
        )  # fmt: skip


def reference(text: str, options: FeatureOptions) -> int:
    """Return the simhash of a text of data_gen."""
    features, weights = _weighted(text, options)
    hashes = np.array([xxhash.xxh3_64_intdigest(f.encode()) for f in features], "<u8")
    bits = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    units = np.array(weights)
    ones = units @ bits
    signs: np.ndarray = np.packbits(2 * ones > units.sum(), bitorder="little")
    return int(signs.view("<u8")[0])


def _weighted(text: str, options: FeatureOptions) -> tuple[list[str], list[int]]:
    tokens = _TOKEN.findall(text.lower())
    if options.unit == "characters":
        # a space between two tokens, unless both are Chinese
        joined = re.sub(r"(?<=[\u3400-\u9fff]) (?=[\u3400-\u9fff])", "", " ".join(tokens))
        n = options.length
        counts = Counter(joined[i : i + n] for i in range(len(joined) - n + 1))
    elif options.length == 1:
        counts = Counter(tokens)
    else:
        counts = Counter(map(" ".join, zip(*(tokens[i:] for i in range(options.length)))))  # noqa: B905 (the shortest ends it)
    weights = 1 + np.log(np.fromiter(counts.values(), np.float64, len(counts)))
    return list(counts), np.rint(64 * weights).astype(np.int64).tolist()
