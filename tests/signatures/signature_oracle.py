"""The keys of texts by each method, the slow and obvious way; nothing here imports mr_dedup."""

import hashlib
import itertools
import math
import re
from collections import Counter

import xxhash

from tests.features import text_oracle
from tests.features.frequency_oracle import weighted as weighted_by_rarity

MASK = (1 << 64) - 1
WINDOW = 3


def md5_key(text):
    return int(hashlib.md5(text.encode()).hexdigest()[:16], 16)


def md5_keys(text):
    """Nothing has no key."""
    return [md5_key(text)] if text else []


def normalised(text, **asked):
    return text_oracle.pieces(text, "words", **asked)[0]


def exact(text, **asked):
    if text is None:
        return []
    as_it_is = text_oracle.NORMALIZE[asked.get("normalize", "nfkc")](text)
    return [md5_key(normalised(text, **asked) or as_it_is)]


def abstract(text, size_bytes=512):
    begins = ""
    for character in text.lstrip():
        if len((begins + character).encode()) > size_bytes:
            break
        begins += character
    return md5_keys(begins)


def weights(text, weighting="tf", counts=None, documents=None, **asked):
    """Each word of a text with what it weighs; of other units with idf than without."""
    if not normalised(text, **asked):
        return {}
    if counts is None:
        return text_oracle.weighted(text, "words", 1, weighting, **asked)
    return weighted_by_rarity(text, "words", 1, weighting, counts, documents, **asked)


def keywords(text, n=10, order="weight", **options):
    """The words that weigh most with their weights, in the order in which they are hashed."""
    ranked = sorted(weights(text, **options).items(), key=lambda it: (-it[1], it[0].encode()))[:n]
    return dict(ranked if order == "weight" else sorted(ranked, key=lambda it: it[0].encode()))


def sim(one, other):
    """|a - b|**2 / (|a|**2 + |b|**2), weights aligned by keyword."""
    apart = sum((one.get(word, 0) - other.get(word, 0)) ** 2 for word in {*one, *other})
    return apart / sum(weight**2 for weight in [*one.values(), *other.values()])


def profile(text, over=2, rate=0.01, **asked):
    """As Nutch makes it, but for the order of equal counts, and CJK characters."""
    tokens = [token for token, _ in text_oracle.prepared(text, **asked)]
    counts = Counter(t for t in tokens if len(t) > over or text_oracle.stands(t[0]))
    highest = max(counts.values(), default=0)
    quantum = math.floor(highest * rate + 0.5)
    if quantum < 2:
        quantum = 2 if highest > 1 else 1
    rounded = {token: count // quantum * quantum for token, count in counts.items()}
    kept = [(token, count) for token, count in rounded.items() if count >= quantum]
    kept.sort(key=lambda it: (-it[1], it[0].encode()))
    return "\n".join(f"{token} {count}" for token, count in kept)


def xxh3(text):
    return xxhash.xxh3_64_intdigest(text.encode())


def units(text, by):
    """The lines or sentences of a text that have words, normalised."""
    text = text_oracle.casefolded_nfkc_of_words(text)
    ends = r"\n" if by == "lines" else r"[.!?](?=[ \t\r\n]|\Z)|[。！？]|\n(?=[ \t\r]*\n)"
    edges = [0, *(found.end() for found in re.finditer(ends, text)), len(text)]
    found = [normalised(text[i:j]) for i, j in itertools.pairwise(edges)]
    return [unit for unit in found if unit]


def runs(items, count, length):
    if length:
        return [items[i : i + length] for i in range(0, len(items), length)]
    count = min(count, len(items))
    edges = [number * len(items) // count for number in range(count + 1)] if count else []
    return [items[i:j] for i, j in itertools.pairwise(edges)]


def parts_by_content(text, count, length, **asked):
    """What is between cuts, each with the window before which the next one is."""
    whole, places = text_oracle.pieces(text, "words", **asked)
    if not places:
        return []

    def between(first, last):
        return whole[places[first][0] : places[min(last, len(places)) - 1][1]]

    hashes = {i: xxh3(between(i, i + WINDOW)) for i in range(1, len(places) - WINDOW + 1)}
    if length:
        cuts = [i for i, value in hashes.items() if value < MASK // length]
    else:
        cuts = sorted(sorted(hashes, key=lambda i: (hashes[i], i))[: count - 1])
    return [
        between(i, len(places) if j is None else j + WINDOW)
        for i, j in zip([0, *cuts], [*cuts, None], strict=True)
    ]


def segments(text, by="content", count=8, length=None, least=4, **asked):
    if by == "content":
        found = parts_by_content(text, count, length, **asked)
        whole = normalised(text, **asked)
    else:
        found = [" ".join(run) for run in runs(units(text, by), count, length)]
        whole = " ".join(units(text, by))
    keys = {xxh3(segment) for segment in found}
    more = range(least - len(keys)) if keys else ()
    return sorted(keys) + [mixed(xxh3(whole), number) for number in more]


def mixed(value, number):
    return folded((value ^ FACTORS[0]) * (number + FACTORS[1]))


FACTORS = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def folded(product):
    """Both halves of a product of 128 bits."""
    return product >> 64 ^ product & MASK


def winnowing(text, window=6, unit="auto", length=None, **asked):
    """A key for each two selected shingles that follow one another, or one of all shingles."""
    hashes = [xxh3(each) for each in text_oracle.shingles(text, unit, length, **asked)]
    if not hashes:
        return []
    selected = []
    for at in range(len(hashes) - window + 1):
        smallest = min(hashes[at : at + window])
        last = max(n for n in range(at, at + window) if hashes[n] == smallest)
        if last not in selected:
            selected.append(last)
    keys = {
        folded((hashes[one] ^ FACTORS[0]) * (hashes[other] ^ FACTORS[1]))
        for one, other in itertools.pairwise(selected)
    }
    if not keys:
        key = len(hashes)
        for value in hashes:
            key = folded((key ^ value ^ FACTORS[0]) * FACTORS[1])
        keys = {key}
    return sorted(keys)
