"""Min-wise hashing of texts and of hashed shingles, beside datasketch and rensa, and its error.

Made-up English pages, shingles of 3 words; seconds are CPU time of all threads, ours has one. From
texts: the rivals get shingles made in Python, by a compiled expression and zip, as they are
normally used. From hashes: only the min-wise hashing; datasketch hashes again, which is fast. The
error is the root mean square error of estimates for pairs with similarities from 0 to 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.inputs import SEED, page_texts
from bench.measure import Mismatch, Row, case_row, cpu_clock, interleaved, peak_bytes
from mr_dedup.features.shingle_sets import ShingleSets, shingle_sets
from mr_dedup.signatures.minwise import minwise_hashes, minwise_of_hashes

_NAME = "minwise"
_OURS = "mr_dedup"
_words = re.compile(r"[^\W_]+").findall

Case = Callable[[], object]


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if our estimates are worse than in theory."""
    texts = page_texts(100 if quick else 2000)
    array = pa.array(texts, pa.large_string())
    sets = shingle_sets(array)
    for permutations in (84, 128):
        yield from _from_texts(texts, array, permutations, rounds)
        yield from _from_hashes(sets, permutations, rounds)
        yield from _errors(permutations, 200 if quick else 4000)


def _from_texts(
    texts: list[str], array: pa.LargeStringArray, permutations: int, rounds: int
) -> Iterator[Row]:
    cases: dict[str, Case] = {_OURS: lambda: minwise_hashes(array, permutations)}
    datasketch, rensa = _datasketch(), _rensa()
    if datasketch:
        cases["datasketch"] = lambda: [datasketch(_shingles(text), permutations) for text in texts]
    if rensa:
        cases["rensa"] = lambda: rensa([_shingles(text) for text in texts], permutations)
        made = [_shingles(text) for text in texts]
        cases["rensa, shingles given"] = lambda: rensa(made, permutations)
    yield from _timed(cases, f"{permutations} permutations, from texts", array.nbytes, rounds)


def _from_hashes(sets: ShingleSets, permutations: int, rounds: int) -> Iterator[Row]:
    offsets, hashes = sets.offsets, sets.hashes
    cases: dict[str, Case] = {_OURS: lambda: minwise_of_hashes(offsets, hashes, permutations)}
    cuts = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    datasketch, rensa = _datasketch(), _rensa_hashes()
    if datasketch:
        given = [[int(h).to_bytes(8, "little") for h in hashes[a:b]] for a, b in cuts]
        cases["datasketch"] = lambda: [datasketch(each, permutations) for each in given]
    if rensa:
        lists = [hashes[a:b].tolist() for a, b in cuts]
        cases["rensa"] = lambda: rensa(lists, permutations)
    size = hashes.size
    yield from _timed(cases, f"{permutations} permutations, from hashes", 8 * size, rounds)


def _timed(cases: dict[str, Case], what: str, size: int, rounds: int) -> Iterator[Row]:
    for case in cases.values():
        # compiled, warm
        case()
    timings = interleaved(cases, rounds, f"{_NAME}, {what}", cpu_clock)
    for name in cases:
        seconds = timings.median(name)
        # rensa has threads, which a forked process would wait for without end
        memory_bytes = None if name.startswith("rensa") else peak_bytes(cases[name])
        yield case_row(
            _NAME, name, timings, _OURS,
            name=f"{name}, {what}",
            memory_bytes=memory_bytes,
            note=f"{size / seconds / 1e6:,.0f} MB a second",
        )  # fmt: skip


def _errors(permutations: int, pairs: int) -> Iterator[Row]:
    """Yield the error of the estimates of each package for the same pairs."""
    rng = np.random.default_rng(SEED)
    truth, sets = [], []
    for number in range(pairs):
        shared = 200 * (number + 1) // (pairs + 1)
        common, *own = (
            rng.integers(0, 1 << 64, size, dtype=np.uint64)
            for size in (shared, 200 - shared, 200 - shared)
        )
        sets += [np.concatenate([common, each]) for each in own]
        truth.append(shared / (400 - shared))
    similar = np.array(truth)
    offsets = np.cumsum([0, *(each.size for each in sets)])
    found = minwise_of_hashes(offsets, np.concatenate(sets), permutations).values
    errors = {_OURS: _error((found[::2] == found[1::2]).mean(axis=1), similar)}
    datasketch, rensa = _datasketch(), _rensa()
    if datasketch:
        made = [
            datasketch([int(h).to_bytes(8, "little") for h in each], permutations) for each in sets
        ]
        estimates = [a.jaccard(b) for a, b in zip(made[::2], made[1::2], strict=True)]
        errors["datasketch"] = _error(np.array(estimates), similar)
    if rensa:
        sketches = rensa([list(map(str, each.tolist())) for each in sets], permutations)
        estimates = [a.jaccard(b) for a, b in zip(sketches[::2], sketches[1::2], strict=True)]
        errors["rensa"] = _error(np.array(estimates), similar)
    expected = _error_by_theory(similar, permutations)
    # a tenth more is within chance for so many pairs
    if errors[_OURS] > 1.1 * expected:
        raise Mismatch(f"{permutations} permutations: the error is {errors[_OURS]:.4f}")
    for name, error in errors.items():
        note = f"error {error:.4f}; in theory {expected:.4f}"
        yield Row(_NAME, f"{name}, {permutations} permutations, error", note=note)


def _error(estimates: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((estimates - truth) ** 2)))


def _error_by_theory(similar: NDArray[np.float64], permutations: int) -> float:
    return float(np.sqrt(np.mean(similar * (1 - similar) / permutations)))


def _shingles(text: str) -> list[str]:
    found = _words(text.lower())
    if len(found) < 3:
        return [" ".join(found)]
    return list(map(" ".join, zip(found, found[1:], found[2:], strict=False)))


def _datasketch() -> Callable[[list[str] | list[bytes], int], Any] | None:
    try:
        from datasketch import MinHash
    except ImportError:
        return None
    empty: dict[int, Any] = {}

    def sketch(shingles: list[str] | list[bytes], permutations: int) -> Any:
        # drawing permutations again for each text would take as long as the rest
        if permutations not in empty:
            empty[permutations] = MinHash(num_perm=permutations)
        made = empty[permutations].copy()
        made.update_batch([s if isinstance(s, bytes) else s.encode() for s in shingles])
        return made

    return sketch


def _rensa() -> Callable[[list[list[str]], int], list[Any]] | None:
    try:
        from rensa import RMinHash
    except ImportError:
        return None
    return lambda sets, permutations: RMinHash.from_token_sets(sets, permutations, SEED)


def _rensa_hashes() -> Callable[[list[list[int]], int], object] | None:
    try:
        from rensa import RMinHash
    except ImportError:
        return None
    return lambda sets, permutations: RMinHash.digest_matrix_from_token_hash_sets(
        sets, permutations, SEED
    )
