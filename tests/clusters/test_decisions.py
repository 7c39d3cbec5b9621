"""Decisions against comparing all with all, by sets of strings."""

import dataclasses
import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters import decisions as decisions_module
from mr_dedup.clusters.criterion import THRESHOLD, Criterion
from mr_dedup.clusters.decisions import Limits, Reason, resolve
from mr_dedup.clusters.documents import ClusteredDocuments
from mr_dedup.clusters.keep_policy import KeepPolicy
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import MAX_SHINGLES, ShingleSets, shingle_sets
from tests.clusters.clustered import Page, columns
from tests.clusters.sketch_oracle import estimate
from tests.features import text_oracle
from tests.strategies import costly

SHINGLES = FeatureOptions("words", 2)
THRESHOLDS = [None, 1e-9, 0.2, 1 / 3, 0.5, 2 / 3, 0.8, 0.9, 1.0]
READ_FIRST = KeepPolicy.parse(["first"])


@dataclasses.dataclass(frozen=True)
class Decided:
    """What is decided on a page, which file and place name, as its original."""

    original: tuple[int, int]
    similarity: float | None
    distance: int | None
    reason: str


def shingles(page):
    return frozenset(text_oracle.shingles(page.text, SHINGLES.unit, SHINGLES.length))


def oracle(pages, threshold, fixed=()):
    """What is to be decided on pages that come best first, by (file, place).

    Those at the places ``fixed`` are kept.
    """
    pages = sorted(pages, key=lambda page: page.place not in fixed)
    sets = {page: shingles(page) for page in pages}
    members = [page for page in pages if page.exists and (threshold is None or sets[page])]
    decided, originals, first_of_text = {}, {}, {}
    for page in members:
        found = originals.setdefault(page.cluster, [])
        # pages of one text stand where the first of them stands
        first = first_of_text.setdefault((page.cluster, page.text), page)
        if page.place in fixed:
            decided[page] = page
            found.append(page)
        elif first is not page:
            decided[page] = decided[first]
        elif threshold is None:
            decided[page] = found[0] if found else page
            found[:] = found or [page]
        else:
            likeness = [jaccard(sets[page], sets[original]) for original in found]
            best = max(likeness, default=-1)
            decided[page] = found[likeness.index(best)] if best >= threshold else page
            if best < threshold:
                found.append(page)
    sizes = {page.cluster: sum(p.cluster == page.cluster for p in members) for page in members}
    return {
        (page.file, page.place): explained(
            page, decided.get(page), originals, sizes, threshold, sets
        )
        for page in pages
    }


def explained(page, original, originals, sizes, threshold, sets):
    if original is None:
        return Decided((page.file, page.place), None, None, "unclustered")
    if original is page:
        reason = "dissimilar"
        if originals[page.cluster][0] is page:
            reason = "unclustered" if sizes[page.cluster] == 1 else "first_of_cluster"
        return Decided((page.file, page.place), None, None, reason)
    distance = bin(page.fingerprint ^ original.fingerprint).count("1")
    similarity, reason = None, "same_cluster"
    if original.text == page.text:
        similarity, reason = 1.0, "exact_duplicate"
    elif threshold is not None:
        similarity, reason = jaccard(sets[page], sets[original]), "near_duplicate"
    return Decided((original.file, original.place), similarity, distance, reason)


def jaccard(a, b):
    return len(a & b) / len(a | b)


def decided(pages, threshold, policy=READ_FIRST, fixed=None):
    """The library's decisions on pages, by (file, place); at the places ``fixed`` all are kept."""
    documents, texts = columns(pages)
    sets = None if threshold is None else shingle_sets(texts, SHINGLES)
    criterion = None if threshold is None else Criterion(threshold)
    kept = None if fixed is None else np.array([page.place in fixed for page in pages], bool)
    found = resolve(documents, policy.rank(documents), sets, criterion, kept)
    rows = found.table(documents).to_pylist()
    for page, row, original in zip(pages, rows, found.kept_rows, strict=True):
        assert row["id"] == page.id
        assert row["kept_id"] == pages[original].id
        assert row["cluster"] == (page.cluster if page.exists else None)
    assert found.kept.tolist() == [row["distance_bits"] is None for row in rows]
    assert found.kept.tolist() == [Reason(reason).is_kept for reason in found.reasons]
    return {
        (page.file, page.place): Decided(
            (pages[original].file, pages[original].place),
            row["similarity"],
            row["distance_bits"],
            row["reason"],
        )
        for page, row, original in zip(pages, rows, found.kept_rows, strict=True)
    }


def in_order_of_reading(pages):
    return sorted(pages, key=lambda page: (page.file, page.place))


@pytest.fixture(params=[1, 3, 32], ids="few={}".format)
def few(request, monkeypatch):
    """From how many originals on an index is used: it must decide as comparing all does."""
    monkeypatch.setattr(decisions_module, "_FEW", request.param)


WORDS = st.sampled_from(["a", "b", "c", "D", "é", "中", "文", "the", "—"])
variants = st.tuples(
    st.lists(WORDS, max_size=14), st.lists(st.tuples(st.integers(0, 13), WORDS), max_size=3)
).map(lambda made: " ".join(changed(*made)))


def changed(words, changes):
    words = list(words)
    for place, word in changes:
        words[place : place + 1] = [word]
    return words


@st.composite
def some_pages(draw):
    """Pages that are variants of few texts, in few clusters, with ids that repeat."""
    bases = draw(st.lists(st.lists(WORDS, min_size=4, max_size=20), min_size=1, max_size=3))
    change = st.lists(st.tuples(st.integers(0, 19), WORDS), max_size=3)
    texts = draw(
        st.lists(
            st.one_of(
                st.builds(changed, st.sampled_from(bases), change).map(" ".join),
                variants,
            ),
            min_size=1,
            max_size=25,
        )
    )
    return [
        Page(
            id=draw(st.sampled_from("xyz")),
            text=text,
            file=draw(st.integers(0, 2)),
            place=place,
            cluster=draw(st.sampled_from([0, 0, 7, 2**64 - 1])),
            fingerprint=draw(st.sampled_from([0, 1, 2**63, 2**64 - 1])),
            exists=draw(st.integers(0, 9)) > 0,
        )
        for place, text in enumerate(texts)
    ]


@pytest.mark.usefixtures("few")
@costly
@given(some_pages(), st.sampled_from(THRESHOLDS), st.randoms(use_true_random=False))
def test_any_pages_are_decided_on_as_by_comparing_all(pages, threshold, rng):
    expected = oracle(in_order_of_reading(pages), threshold)
    assert decided(pages, threshold) == expected
    rng.shuffle(pages)
    assert decided(pages, threshold) == expected


@pytest.mark.usefixtures("few")
@costly
@given(some_pages(), st.sampled_from(THRESHOLDS), st.sets(st.integers(0, 24)))
def test_pages_that_are_fixed_are_kept_and_come_first(pages, threshold, fixed):
    expected = oracle(in_order_of_reading(pages), threshold, fixed)
    found = decided(pages, threshold, fixed=fixed)
    for page in pages:
        place = page.file, page.place
        if page.place in fixed:
            # why they are kept an earlier run has said
            assert (found[place].original, found[place].similarity) == (place, None)
            assert Reason[found[place].reason.upper()].is_kept
        else:
            assert found[place] == expected[place]


def test_each_cluster_is_decided_on_as_if_it_were_alone():
    rng = random.Random(1)
    pages = [
        Page(str(n), " ".join(rng.choices("abcdef", k=6)), place=n, cluster=rng.randrange(40))
        for n in range(600)
    ]
    together = decided(pages, 0.5)
    for cluster in range(40):
        alone = decided([page for page in pages if page.cluster == cluster], 0.5)
        assert alone.items() <= together.items()


def test_the_policy_says_who_is_kept():
    pages = [
        Page("short", "a b c d e f g h", place=0, fields={"date": "2024"}),
        Page("long", "a b c d e f g h i", place=1, fields={"date": "2023"}),
        Page("other", "x y z", place=2, fields={"date": "2022"}),
    ]
    for name, kept in {"longest": {1, 2}, "newest:date": {0, 2}, "shortest": {0, 2}}.items():
        found = decided(pages, 0.8, KeepPolicy.parse([name]))
        assert {place for (_, place), page in found.items() if page.original == (0, place)} == kept


def test_a_chain_does_not_drop_what_is_unlike_its_keeper():
    words = [f"w{n}" for n in range(60)]
    a, b, c = (" ".join(words[start : start + 40]) for start in (0, 4, 8))
    pages = [Page(text=text, place=place) for place, text in enumerate((a, b, c))]
    found = decided(pages, 0.8)
    assert [found[0, place].original for place in range(3)] == [(0, 0), (0, 0), (0, 2)]
    assert found[0, 2].reason == "dissimilar"
    assert {page.original for page in decided(pages, None).values()} == {(0, 0)}


def test_of_several_keepers_the_most_similar_is_the_one_and_of_equal_ones_the_first():
    texts = ["a b c d e", "f g h i j", "a b c d e f g h i j", "f g h i j a b c d e"]
    pages = [Page(text=text, place=place) for place, text in enumerate(texts)]
    found = decided(pages, 0.4)
    assert [found[0, place].original for place in range(4)] == [(0, 0), (0, 1), (0, 0), (0, 0)]
    nearer = [*pages[:2], Page(text="f g h i j a b c", place=9)]
    assert decided(nearer, 0.4)[0, 9].original == (0, 1)


def test_copies_of_a_dropped_page_are_dropped_for_its_keeper():
    pages = [Page(text="a b c d e f g h", place=0)]
    pages += [Page(text="a b c d e f g h i", place=place) for place in range(1, 4)]
    pages += [Page(text="a b c d e f g h", place=9)]
    found = decided(pages, 0.8)
    assert {page.original for page in found.values()} == {(0, 0)}
    assert [found[0, place].reason for place in (1, 2, 3)] == ["near_duplicate"] * 3
    assert (found[0, 9].reason, found[0, 9].similarity) == ("exact_duplicate", 1.0)


def test_the_same_shingles_in_another_text_are_a_near_duplicate_of_similarity_1():
    pages = [Page(text="A b, c!", place=0), Page(text="a b c", place=1)]
    found = decided(pages, 1.0)
    assert found[0, 1] == Decided((0, 0), 1.0, 0, "near_duplicate")


def documents_of(clusters, texts):
    """Documents of these clusters and text numbers, in the order in which they were read."""
    n = len(texts)
    return ClusteredDocuments(
        ids=pa.array(map(str, range(n)), pa.large_string()),
        files=np.zeros(n, np.int64),
        positions=np.arange(n),
        text_bytes=np.zeros(n, np.int64),
        clusters=np.array(clusters, np.uint64),
        fingerprints=np.zeros(n, np.uint64),
        has_fingerprint=np.ones(n, np.bool_),
        texts=np.array(texts, np.int64),
    )


def sets_of(lists, most=MAX_SHINGLES):
    kept = [sorted(numbers)[:most] for numbers in lists]
    sizes = np.array([len(numbers) for numbers in lists], np.int64)
    offsets = np.append(0, np.minimum(sizes, most).cumsum())
    return ShingleSets(offsets, sizes, np.array(list(itertools.chain(*kept)), np.uint64), most)


def crowds():
    """Crowded clusters of every kind: sets of numbers, by name."""
    rng = random.Random(5)

    def new(count):
        return [rng.getrandbits(64) for _ in range(count)]

    boilerplate, almost_all, phrases = new(30), new(46), new(80)
    bases = [new(60) for _ in range(30)]
    return {
        "unlike": [new(60) for _ in range(180)],
        "half the same": [boilerplate + new(30) for _ in range(180)],
        "almost equal": [almost_all + new(14) for _ in range(180)],
        "few phrases": [rng.sample(phrases, 40) for _ in range(180)],
        "near-duplicates": [
            rng.sample(base, 60 - change) + new(change)
            for base in bases
            for change in (0, 1, 3, 6, 8, 12, 20)
        ],
        # of a similarity of 0.8, to a hash, where what is not in common is rarest
        "at the threshold": [
            core + new(more)
            for core in (new(8 * n) for n in range(1, 9) for _ in range(9))
            for more in (len(core) // 8, len(core) // 8, 0, len(core) // 4)
        ],
        # where these are cut, each has hashes that the other has not, or not up to there
        "subsets": [
            core + new(more)
            for core in (new(size) for size in range(40, 130))
            for more in (0, len(core) // 6, len(core) // 5)
        ],
        "prefixes": [boilerplate[: size % 31] + phrases[: 1 + size % 80] for size in range(180)],
        "of all sizes": [rng.sample(phrases, 1 + n % 80) for n in range(180)],
        "of one": [[n % 17] for n in range(100)],
        "variants of one": [
            rng.sample(phrases, 80 - change) + new(change)
            for change in range(1, 12)
            for _ in "a" * 16
        ],
    }


CROWDS = crowds()

LIMITS = [
    Limits(),
    Limits(index_entries=1),
    Limits(index_entries=700),  # some originals are in the index
    Limits(counts=1),  # no hash looks as if one text alone had it
    Limits(counts=500),
    Limits(parity_bytes=1),
    Limits(work=1),
]


def by_comparing_all(sets, most, threshold):
    """The position of each set's original."""
    originals, found = [], []
    for place, numbers in enumerate(sets):
        likeness = [estimate(sets[original], numbers, most) for original in originals]
        best = max(likeness, default=-1)
        found.append(originals[likeness.index(best)] if best >= threshold else place)
        if best < threshold:
            originals.append(place)
    return found


@pytest.mark.parametrize("name", CROWDS)
@pytest.mark.parametrize("threshold", [0.3, 0.8, 1.0])
def test_large_clusters_are_decided_on_as_by_comparing_all(name, threshold, monkeypatch):
    sets = [frozenset(numbers) for numbers in CROWDS[name]]
    random.Random(name).shuffle(sets)
    sets = list(dict.fromkeys(sets))
    n = len(sets)
    documents, order = documents_of([0] * n, range(n)), np.arange(n)
    for most in (MAX_SHINGLES, 35):  # 35: many sets are cut
        expected = by_comparing_all(sets, most, threshold)
        for limits in LIMITS:
            found = resolve(
                documents, order, sets_of(sets, most), Criterion(threshold), limits=limits
            )
            assert found.kept_rows.tolist() == expected, (most, limits)
        # every cluster is a large one
        monkeypatch.setattr(decisions_module, "_SLICE_HASHES", 50)
        found = resolve(documents, order, sets_of(sets, most), Criterion(threshold))
        assert found.kept_rows.tolist() == expected, most
        monkeypatch.undo()


def test_large_clusters_are_decided_on_beside_others():
    sets = [numbers for name in ("unlike", "few phrases") for numbers in CROWDS[name]]
    sets += [CROWDS["unlike"][0], CROWDS["few phrases"][0][:-1]]
    n = len(sets)
    clusters = [n_ // 180 for n_ in range(n)]
    order = np.random.default_rng(1).permutation(n)
    found = resolve(documents_of(clusters, range(n)), order, sets_of(sets))
    for cluster in range(3):
        members = [place for place in order if clusters[place] == cluster]
        alone = by_comparing_all(
            [frozenset(sets[place]) for place in members], MAX_SHINGLES, THRESHOLD
        )
        assert found.kept_rows[members].tolist() == [members[original] for original in alone]


def test_the_order_and_the_parts_in_which_documents_come_do_not_matter():
    sets = [numbers for name in ("near-duplicates", "few phrases") for numbers in CROWDS[name]]
    n = len(sets)
    places = np.arange(n)
    expected = resolve(documents_of([0] * n, places), places, sets_of(sets, 50)).kept_rows
    rng = np.random.default_rng(2)
    for parts in (1, 2, 7):
        came = rng.permutation(n)
        documents = dataclasses.replace(documents_of([0] * n, places), positions=came)
        joined = ShingleSets.joined(
            [sets_of([sets[i] for i in part], 50) for part in np.array_split(came, parts)]
        )
        found = resolve(documents, READ_FIRST.rank(documents), joined)
        assert came[found.kept_rows[np.argsort(came)]].tolist() == expected.tolist()


def test_what_is_dropped_has_a_keeper_that_is_like_it_and_keepers_are_unlike():
    rng = random.Random(6)
    base = [f"w{n}" for n in range(40)]
    pages = []
    for place in range(300):
        words = list(base)
        for _ in range(rng.randrange(12)):
            words[rng.randrange(40)] = f"w{rng.randrange(60)}"
        pages.append(Page(str(rng.randrange(9)), " ".join(words), place=place))
    found = decided(pages, 0.6, KeepPolicy.parse(["longest"]))
    sets = {(page.file, page.place): shingles(page) for page in pages}
    originals = {page for page, decision in found.items() if decision.original == page}
    assert 1 < len(originals) < 200
    for page, decision in found.items():
        assert decision.original in originals
        if page not in originals:
            assert decision.similarity == jaccard(sets[page], sets[decision.original]) >= 0.6
    for one, other in itertools.combinations(originals, 2):
        assert jaccard(sets[one], sets[other]) < 0.6


def test_a_hundred_thousand_copies_and_ten_thousand_unlike_texts():
    rng = np.random.default_rng(7)
    sizes = np.full(10_000, 50)
    hashes = np.sort(rng.integers(0, 2**64, (10_000, 50), dtype=np.uint64), axis=1).ravel()
    sets = ShingleSets(np.arange(10_001) * 50, sizes, hashes, MAX_SHINGLES)
    texts = np.concatenate([np.zeros(100_000, np.int64), np.arange(10_000)])
    n = texts.size
    found = resolve(documents_of([3] * n, texts), np.arange(n), sets)
    counts = dict(zip(*np.unique(found.reasons, return_counts=True), strict=True))
    assert counts == {
        Reason.FIRST_OF_CLUSTER: 1, Reason.DISSIMILAR: 9_999, Reason.EXACT_DUPLICATE: 100_000
    }  # fmt: skip
    assert (found.kept_rows[found.reasons == Reason.EXACT_DUPLICATE] == 0).all()


def test_variants_of_one_page_leave_no_keepers_that_are_similar():
    """By a product of matrices: 1,500 variants of a page, 3 to 9 of its 200 words replaced."""
    rng = np.random.default_rng(8)
    page, n = np.arange(200), 1500
    words = np.tile(page, (n, 1))
    for row in words:
        row[rng.choice(200, rng.integers(3, 10), replace=False)] = rng.integers(200, 30_000, 1)
    shingled = words[:, :-2] * 30_000**2 + words[:, 1:-1] * 30_000 + words[:, 2:]
    values, numbers, counts = np.unique(shingled, return_inverse=True, return_counts=True)
    numbers = numbers.reshape(shingled.shape)
    hashes = rng.integers(0, 2**64, values.size, dtype=np.uint64)[numbers]
    found = resolve(documents_of([0] * n, range(n)), np.arange(n), sets_of(hashes.tolist()))
    kept = np.flatnonzero(found.kept)
    assert 100 < kept.size < n
    present = np.zeros((n, values.size), np.float32)
    np.put_along_axis(present, numbers, 1, axis=1)
    present = present[:, counts > 1]
    shared = (present[kept] @ present.T + np.eye(n)[kept] * (198 - present.sum(axis=1))).T
    similar = shared / (2 * 198 - shared)
    assert (similar[kept] >= THRESHOLD).sum() == kept.size
    dropped = np.flatnonzero(~found.kept)
    before = np.where(kept < dropped[:, None], similar[dropped], 0)
    assert (kept[before.argmax(axis=1)] == found.kept_rows[dropped]).all()


def test_without_verification_nothing_need_be_known_of_texts():
    documents = dataclasses.replace(documents_of([1, 1, 2], [0, 0, 0]), texts=None)
    found = resolve(documents, np.array([1, 0, 2]), criterion=None)
    assert found.kept_rows.tolist() == [1, 1, 2]
    assert found.table(documents).column("similarity").null_count == 3
    assert [Reason(reason).key for reason in found.reasons] == [
        "same_cluster",
        "first_of_cluster",
        "unclustered",
    ]


def test_no_documents():
    for criterion in (None, Criterion(), Criterion(0.9, "contained")):
        found = resolve(documents_of([], []), np.arange(0), sets_of([]), criterion)
        assert len(found) == 0
        assert found.table(documents_of([], [])).num_rows == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"order": np.array([0, 0])}, "order: expected a permutation of 2 positions"),
        ({"order": np.array([0])}, "order: expected a permutation of 2 positions"),
        ({"fixed": np.array([True])}, r"fixed: expected bool\[2\], got bool\[1\]"),
        ({"sets": None}, "criterion 0.8: requires documents.texts and sets"),
        ({"sets": sets_of([[1]])}, "texts: expected numbers of 1 sets, got up to 1"),
        (
            {"sets": sets_of([[1, 2], [2]], 1), "criterion": Criterion(0.9, "contained")},
            "sets: expected whole ones, got some cut at 1",
        ),
    ],
)
def test_misuse_is_named(changes, reason):
    arguments = {"order": np.arange(2), "sets": sets_of([[1], [2]]), **changes}
    with pytest.raises(ValueError, match=reason):
        resolve(documents_of([0, 0], [0, 1]), **arguments)


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(ValueError, match="work must be at least 1, not 0"):
        Limits(work=0)
