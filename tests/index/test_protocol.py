"""One suite for every form of an index: in memory, and on disk in all its states."""

import random

import numpy as np
import pytest

from tests.index.forms import FORMS, LOCAL_FORMS, MEMORY_DOCUMENTS, made
from tests.index.index_oracle import Oracle
from tests.oracles import neighbour, signed

EVERY_FORM = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


def values(numbers):
    return np.array(numbers, dtype=np.uint64)


def of_each(matches, count):
    """The matches of each query as tuples."""
    return [[tuple(match) for match in matches.of(query)] for query in range(count)]


class Both:
    """An index and its oracle, to which everything is done."""

    def __init__(self, index, k, named, rng):
        self.index, self.k, self.named, self.rng = index, k, named, rng
        self.oracle = Oracle(named)
        self.seen = [0, (1 << 64) - 1]

    def documents(self, count):
        """Fingerprints, many of them near others or repeated, and ids, many of them known."""
        rng = self.rng
        chosen = []
        for _ in range(count):
            if rng.random() < 0.5:
                chosen.append(rng.getrandbits(64))
            else:
                chosen.append(neighbour(rng, rng.choice(self.seen), rng.randint(0, self.k + 1)))
        self.seen += chosen
        ids = [f"page {rng.randrange(150)} é" for _ in chosen] if self.named else None
        return chosen, ids

    def add(self, count):
        chosen, ids = self.documents(count)
        assert self.index.add(values(chosen), ids) == self.oracle.add(chosen, ids)

    def remove(self, count):
        stored = list(self.oracle.documents)
        ids = self.rng.choices(stored, k=count) if stored else []
        ids += ["12345" if not self.named else "page none"]
        assert self.index.remove(ids).tolist() == self.oracle.remove(ids)

    def check_and_add(self, count):
        chosen, ids = self.documents(count)
        k, limit = self.rng.randint(0, self.k), self.rng.choice([None, 1, 3])
        only_new = self.rng.random() < 0.5
        found = self.index.check_and_add(values(chosen), ids, k, limit=limit, only_new=only_new)
        matches = of_each(found.matches, count)
        expected = self.oracle.check_and_add(chosen, ids, k, limit, only_new)
        assert list(zip(matches, found.added.tolist(), strict=True)) == expected

    def compare(self):
        assert len(self.index) == len(self.oracle.documents)
        queries = [neighbour(self.rng, value, 1) for value in self.rng.choices(self.seen, k=20)]
        queries += self.rng.choices(self.seen, k=20)
        for k in range(self.k + 1):
            limit = self.rng.choice([None, None, 1, 2])
            found = self.index.query(values(queries), k, limit=limit)
            expected = [self.oracle.matches(value, k, limit) for value in queries]
            assert of_each(found, len(queries)) == expected
            assert len(found) == sum(map(len, expected))


# every form with each k and both ways of ids
@pytest.mark.parametrize(
    ("named", "seeds"),
    [(True, {3: 1, 0: 2, 2: 5}), (False, {4: 3, 1: 4})],
    ids=["named", "without ids"],
)
@EVERY_FORM
def test_random_changes_equal_brute_force(form, named, seeds, folder):
    for k, seed in seeds.items():
        rng = random.Random(f"{form} {named} {seed}")
        with made(form, folder.with_name(f"index-{k}"), k, named) as index:
            both = Both(index, k, named, rng)
            both.compare()
            for _ in range(9):
                kind = rng.choices([both.add, both.remove, both.check_and_add], [5, 3, 2])[0]
                kind(rng.choice([1, 7, MEMORY_DOCUMENTS // 2, 3 * MEMORY_DOCUMENTS]))
                if rng.random() < 0.5:
                    both.compare()
            both.compare()


@EVERY_FORM
def test_distances_beyond_four(form, folder):
    rng = random.Random(7)
    with made(form, folder, k=9) as index:
        both = Both(index, 9, True, rng)
        both.add(200)
        both.remove(20)
        both.compare()


@EVERY_FORM
def test_many_documents_of_one_fingerprint(form, folder):
    with made(form, folder) as index:
        ids = [f"{number}" for number in range(200)]
        for start in range(0, 200, 25):
            index.add(values([5] * 25), ids[start : start + 25])
        found = index.query(values([4]))
        assert list(found.ids) == ids
        assert list(index.query(values([4]), limit=3).ids) == ids[:3]
        index.remove(ids[:150])
        assert list(index.query(values([4]), limit=3).ids) == ids[150:153]
        # what is added anew is the newest
        index.add(values([5]), ["150"])
        assert list(index.query(values([4])).ids) == [*ids[151:], "150"]


@EVERY_FORM
def test_one_id_keeps_its_last_fingerprint(form, folder):
    with made(form, folder) as index:
        assert index.add(values([1, 2, 3]), ["a", "b", "a"]) == 2
        assert [tuple(m) for m in index.query(values([3]))] == [("a", 3, 0), ("b", 2, 1)]
        assert index.add(values([0]), ["a"]) == 0
        assert [tuple(m) for m in index.query(values([3]), 2)] == [("b", 2, 1), ("a", 0, 2)]
        assert len(index) == 2


@EVERY_FORM
def test_without_ids_a_fingerprint_is_its_own(form, folder):
    with made(form, folder, named=False) as index:
        big = (1 << 64) - 1
        assert index.add(values([big, 7, 7])) == 2
        assert index.add(values([7])) == 0
        assert list(index.query(values([big])).ids) == ["-1"]
        assert index.remove(["-1", "8"]).tolist() == [True, False]
        assert index.remove([str(signed(7))]).tolist() == [True]
        assert len(index) == 0


@EVERY_FORM
def test_check_and_add_leaves_out_what_it_replaces(form, folder):
    with made(form, folder) as index:
        found = index.check_and_add(values([8, 9]), ["a", "b"], only_new=True)
        assert found.added.tolist() == [True, False]
        assert of_each(found.matches, 2) == [[], [("a", 8, 1)]]
        # a page that is fetched again is not its own near-duplicate
        again = index.check_and_add(values([9]), ["a"], only_new=True)
        assert again.added.tolist() == [True]
        assert not len(again.matches)
        assert len(index) == 1


@EVERY_FORM
def test_nothing(form, folder):
    with made(form, folder) as index:
        empty = values([])
        assert len(index.query(values([1, 2]))) == 0
        assert index.add(empty, []) == 0
        assert index.remove([]).tolist() == []
        assert len(index.query(empty)) == 0
        checked = index.check_and_add(empty, [])
        assert (len(checked.matches), checked.added.tolist()) == (0, [])
        assert list(index.query(values([1]))) == []


@EVERY_FORM
def test_mistakes_change_nothing(form, folder):
    with made(form, folder) as index:
        index.add(values([1]), ["a"])
        for call, message in (
            (lambda: index.add(values([2, 3]), ["b"]), "ids: 1 for 2 documents"),
            (lambda: index.add(values([2])), "ids: needed"),
            (lambda: index.add(values([2]), [""]), "ids"),
            (lambda: index.add(values([2]), [7]), "expected text, got 7"),
            (lambda: index.add(values([2]), ["\ud800"]), "UTF-8"),
            (lambda: index.add(values([2]), ["x" * 70000]), "ids"),
            (lambda: index.add(np.array([2]), ["b"]), "uint64"),
            (lambda: index.add([2], ["b"]), "uint64"),
            (lambda: index.query(np.array([2])), "uint64"),
            (lambda: index.query(values([2]), 4), "k must be from 0 to 3"),
            (lambda: index.query(values([2]), -1), "k must be from 0 to 3"),
            (lambda: index.query(values([2]), limit=0), "limit"),
            (lambda: index.check_and_add(values([2]), ["b"], 5), "k must be"),
            (lambda: index.check_and_add(values([2]), ["b"], limit=0), "limit"),
            (lambda: index.remove([1]), "ids"),
        ):
            with pytest.raises(ValueError, match=message):
                call()
        # a text would be taken for the sequence of its characters
        for call in (
            lambda: index.add(values([2, 3]), "bc"),
            lambda: index.check_and_add(values([2, 3]), "bc"),
            lambda: index.remove("a"),
        ):
            with pytest.raises(TypeError, match=r"ids: expected a sequence of ids, got a text"):
                call()
        assert [tuple(match) for match in index.query(values([1]))] == [("a", 1, 0)]
        assert len(index) == 1


@pytest.mark.parametrize("form", LOCAL_FORMS)
def test_a_snapshot_stays_as_it_was(form, folder):
    with made(form, folder) as index:
        index.add(values([1, 2]), ["a", "b"])
        index.remove(["b"])
        taken = index.snapshot()
        index.add(values([1, 9]), ["c", "a"])
        index.remove(["c"])
        index.add(values(range(1 << 20, (1 << 20) + 100)), [f"{n}" for n in range(100)])
        assert [tuple(match) for match in taken.query(values([1]))] == [("a", 1, 0)]
        assert len(taken) == 1


def test_every_form_says_what_it_is(folder):
    for number, form in enumerate(FORMS):
        with made(form, folder / str(number), 2, False) as index:
            assert (index.k, index.named) == (2, False)
