"""The arguments that choose methods and thresholds: for dedup, and for pairs of documents."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mr_dedup.errors import MrDedupError, usage_errors

if TYPE_CHECKING:
    from mr_dedup.clusters.criterion import Criterion
    from mr_dedup.pipeline.dedup_options import DedupOptions
    from mr_dedup.signatures.protocol import SignatureMethod

DEFAULT_METHOD, DEFAULT_K, DEFAULT_VERIFY = "minhash", 10, 0.8

CONTAINED, CONTAINED_METHOD = "contained", "winnowing"
"""What ``--verify`` begins with for documents that are in others, and their default method."""

SIMHASH_FEATURES, SIMHASH_WEIGHTS = "words:2", "log-tf"

OTHER_FEATURES, OTHER_WEIGHTS = "auto", "tf"
"""Of fingerprints that only name documents: made beside the min-wise hashes they cost nothing."""

AUTO_SHINGLES = "auto"


def similarity_or_off(text: str) -> float | None:
    """Return the minimum similarity of an argument, None for off."""
    if text == "off":
        return None
    value = _share(text)
    if value is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a similarity above 0 and up to 1, or off"
        )
    return value


def verify_argument(text: str) -> float | str | None:
    """Return the same, or ``contained:SHARE`` as it is."""
    title, colon, share = text.partition(":")
    if not colon or title != CONTAINED:
        return similarity_or_off(text)
    value = _share(share)
    if value is None:
        raise argparse.ArgumentTypeError(
            f"{text!r}: {share!r} is not a share above 0 and up to 1, as in {CONTAINED}:0.9"
        )
    return f"{CONTAINED}:{value}"


def _share(text: str) -> float | None:
    """Return the number above 0 and up to 1 that a text states, None for another text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def criterion_of(verify: float | str | None) -> Criterion | None:
    """Return when a document duplicates a kept one, from an argument."""
    from mr_dedup.clusters.criterion import Criterion

    return None if verify is None else Criterion.parse(str(verify))


def chosen_methods(
    arguments: argparse.Namespace, criterion: Criterion | None
) -> tuple[int | None, list[SignatureMethod]]:
    """Return k of simhash, None without it, and the methods by keys; MrDedupError for others.

    Pairs that meet ``criterion`` are to be found, those of similarity 0.8 if it is None.
    """
    from mr_dedup.clusters.criterion import Criterion
    from mr_dedup.jobs.frequencies import read_frequencies
    from mr_dedup.signatures.methods import SIMHASH, is_simhash, parse_methods, simhash_distance

    is_containment = criterion is not None and criterion.is_containment
    if arguments.symbols is None:
        only_equal = criterion == Criterion.parse("1")
        # frequencies are of words, unless they were made with symbols
        by_frequency = arguments.idf is not None or arguments.keyword_idf is not None
        arguments.symbols = "ignore" if by_frequency else "keep" if only_equal else "auto"
    names = arguments.method or [CONTAINED_METHOD if is_containment else DEFAULT_METHOD]
    with usage_errors("--method"):
        distances = [simhash_distance(name) for name in names if is_simhash(name)]
        by_keys = [name for name in names if not is_simhash(name)]
        methods = parse_methods(
            by_keys, read_frequencies(arguments.keyword_idf), arguments.normalize,
            DEFAULT_VERIFY if criterion is None else criterion.threshold, arguments.shingles,
            arguments.symbols,
        )  # fmt: skip
    by_simhash = (
        (SIMHASH_FEATURES, SIMHASH_WEIGHTS) if distances else (OTHER_FEATURES, OTHER_WEIGHTS)
    )
    arguments.features = arguments.features or by_simhash[0]
    arguments.weights = arguments.weights or by_simhash[1]
    given = {k for k in (*distances, arguments.k) if k is not None}
    if not distances and given:
        raise MrDedupError(f"-k: not used by {', '.join(names)}; give --method {SIMHASH}")
    if len(given) > 1:
        raise MrDedupError(f"--method {SIMHASH}: is given several k, {sorted(given)}")
    return (*given, DEFAULT_K)[0] if distances else None, methods


def recall_lines(options: DedupOptions) -> list[str]:
    """Return lines for the user on the expected recalls, with a warning where they are low."""
    from mr_dedup.signatures.bands import MIN_SIMILARITY, RECALL, choose_bands

    if options.verify is None:
        return []
    similarity = options.verify.threshold
    if options.verify.is_containment:
        return _containment_lines(options)
    recalls = options.expected_recalls
    # what MinHash finds would be known, were it of the shingles that texts are compared by
    lines = [
        f"warning: the recall of {method.name} is unknown: it uses other shingles than "
        "--shingles, or estimated similarities"
        for method in options.methods
        if method.name.startswith("minhash:") and method.name not in recalls
    ]
    if not recalls:
        return lines
    lines += [
        f"{name}: finds pairs of similarity {similarity:g} by shingles of "
        f"{options.compared_by.described_shingles} with probability {recall:.4f}"
        for name, recall in recalls.items()
    ]
    # of other methods it is not known what they find
    if max(recalls.values()) < RECALL and len(recalls) == len(options.method_names):
        bands, rows = choose_bands(similarity)
        lines.append(
            f"warning: near-duplicates of similarity {similarity:g} may be missed; "
            + (
                f"minhash without parameters has {bands} bands of {rows} rows for it"
                if similarity >= MIN_SIMILARITY
                else f"no bands are chosen for less than {MIN_SIMILARITY:g}"
            )
        )
    return lines


def _containment_lines(options: DedupOptions) -> list[str]:
    """Return a warning if no method finds what is contained in much longer documents."""
    if any(method.name.startswith(f"{CONTAINED_METHOD}:") for method in options.methods):
        return []
    names = "; ".join(options.method_names)
    return [
        f"warning: {names} may miss documents that are contained in much longer ones; "
        f"--method {CONTAINED_METHOD} finds these"
    ]
