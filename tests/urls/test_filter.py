"""The filter against a dict, under histories that fill its counters; growth, interrupts."""

import random
from collections import Counter

import numpy as np
import pytest
import redis

from mr_dedup.errors import MrDedupError
from mr_dedup.urls.canonical import NotAUrlError, UrlForm
from mr_dedup.urls.counting_bloom import BloomShape, CountingBloom, load
from mr_dedup.urls.filter import UrlFilter
from mr_dedup.urls.opening import FilterLimits, open_filter
from mr_dedup.urls.redis_store import RedisStore
from mr_dedup.urls.rocks_store import RocksStore
from tests.files.paths import file_at
from tests.urls.bloom_oracle import counted, unpacked
from tests.urls.made_urls import digests_of_numbers, url
from tests.urls.redis_server import running

AS_GIVEN = UrlForm(canonical=False)

TINY = [
    BloomShape(10_000, 12_000, 1, 8),
    BloomShape(10_000, 12_000, 2, 8),
    BloomShape(10_000, 300_000, 2, 3),
    BloomShape(10_000, 40_000, 4, 8),
]


@pytest.fixture(scope="module")
def redis_address():
    with running() as address:
        yield address


class Model:
    """What a filter must answer: URLs by their numbers, and how often each was seen."""

    def __init__(self, universe):
        self.digests = digests_of_numbers(range(universe))
        self.known = Counter()

    def add(self, numbers):
        flags = []
        for number in numbers:
            flags.append(number not in self.known)
            self.known[number] += 1
        return flags

    def remove(self, numbers):
        return [self.known.pop(number, 0) > 0 for number in numbers]

    def require_same(self, url_filter):
        """Every count, and every counter, the latter by the oracle."""
        wanted = [self.known[number] for number in range(len(self.digests))]
        assert url_filter.counts(self.digests).tolist() == wanted
        assert len(url_filter) == len(+self.known)
        bloom = url_filter.bloom
        rows = [tuple(row) for row in self.digests[sorted(+self.known)].tolist()]
        assert unpacked(bloom.words, bloom.shape.counter_bits) == counted(rows, bloom.shape)


def random_work(url_filter, model, rng, steps, batch):
    """Add, remove and add again at random; compare every answer. Returns the operations."""
    done = 0
    universe = range(len(model.digests))
    for _ in range(steps):
        numbers = rng.choices(universe, k=rng.randint(1, batch))
        if rng.random() < 0.6:
            flags = url_filter.add_digests(model.digests[numbers])
            assert flags.tolist() == model.add(numbers)
        else:
            flags = url_filter.remove_digests(model.digests[numbers])
            assert flags.tolist() == model.remove(numbers)
        done += len(numbers)
    return done


@pytest.mark.parametrize("shape", TINY)
def test_many_operations_without_a_wrong_answer(tmp_path, shape):
    rng, model = random.Random(shape.counters), Model(6000)
    done = 0
    with open_filter(tmp_path / "urls", form=AS_GIVEN, shape=shape) as url_filter:
        while done < 150_000:
            done += random_work(url_filter, model, rng, 40, 4000)
            wanted = model.known
            some = rng.choices(range(6000), k=500)
            found = url_filter.counts(model.digests[some])
            assert found.tolist() == [wanted[number] for number in some]
        assert url_filter.bloom.shape == shape
        model.require_same(url_filter)
        if shape.counter_bits < 3 and shape.counters < 20_000:
            # that was no accident: many counters are full
            assert url_filter.bloom.histogram()[-1] > shape.size / 5
        words = url_filter.bloom.words.copy()
        url_filter.rebuild()
        assert np.array_equal(url_filter.bloom.words, words)


@pytest.mark.parametrize("kind", ["folder", "redis"])
def test_one_by_one_in_every_way(tmp_path, redis_address, kind):
    target = tmp_path / "urls" if kind == "folder" else f"{redis_address}#one-by-one"
    rng, model = random.Random(8), Model(60)
    shape = BloomShape(30, 40, 2, 3)
    with open_filter(target, form=AS_GIVEN, shape=shape) as url_filter:
        for _ in range(1500 if kind == "folder" else 200):
            number = rng.randrange(60)
            action = rng.randrange(4)
            if action == 0:
                assert url_filter.add(url(number)) is model.add([number])[0]
            elif action == 1:
                assert url_filter.remove(url(number).decode()) is model.remove([number])[0]
            elif action == 2:
                assert url_filter.count(url(number)) == model.known[number]
            else:
                assert (url(number) in url_filter) == (number in model.known)
        model.require_same(url_filter)


def test_a_url_comes_several_times_in_one_batch(tmp_path):
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        assert url_filter.add_many(list("abacab")).tolist() == [
            True,
            True,
            False,
            True,
            False,
            False,
        ]
        assert url_filter.count("a") == 3
        assert url_filter.remove_many(list("aabx")).tolist() == [True, False, True, False]
        assert url_filter.add_many([]).tolist() == []
        assert [url_filter.count(letter) for letter in "abcx"] == [0, 0, 1, 0]
        assert len(url_filter) == 1


def test_visits_raise_the_count_and_no_counter(tmp_path):
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        url_filter.add("a")
        words = url_filter.bloom.words.copy()
        assert not url_filter.add_many(["a"] * 1000).any()
        assert np.array_equal(url_filter.bloom.words, words)
        assert url_filter.count("a") == 1001


def test_counts_stop_at_the_largest(tmp_path):
    limits = FilterLimits(max_count=3)
    with open_filter(tmp_path / "urls", form=AS_GIVEN, limits=limits) as url_filter:
        assert url_filter.add_many(list("aaaaaa")).tolist() == [True] + [False] * 5
        assert not url_filter.add("a")
        assert url_filter.count("a") == 3


@pytest.mark.parametrize("splits", [1, 2, 7, 5000])
def test_any_batches_give_one_result(tmp_path, splits):
    numbers = random.Random(1).choices(range(900), k=5000)
    whole = Model(900)
    flags = whole.add(numbers)
    with open_filter(tmp_path / "urls", form=AS_GIVEN, shape=TINY[0]) as url_filter:
        parts = np.array_split(np.array(numbers), splits)
        found = [url_filter.add_digests(whole.digests[part]) for part in parts]
        assert np.concatenate(found).tolist() == flags
        whole.require_same(url_filter)


def test_most_of_what_is_new_never_reaches_the_store(tmp_path):
    digests = np.random.default_rng(1).integers(0, 2**64, (60_000, 2), dtype=np.uint64)
    shape = BloomShape.of_paper(50_000)
    with open_filter(tmp_path / "urls", form=AS_GIVEN, shape=shape) as url_filter:
        url_filter.add_digests(digests[:50_000])
        assert url_filter.lookups.urls == 50_000
        assert url_filter.lookups.in_store < 20
        url_filter.counts(digests)
        assert url_filter.lookups.in_store - 50_000 == url_filter.lookups.false_positives < 30


def test_a_whole_change_is_one_change_whatever_its_size(tmp_path):
    """Larger than the store's batches, on top of what it has, and growing past the capacity."""
    limits = FilterLimits(batch_digests=50, converted_keys=70)
    shape = BloomShape(300, 6000, 2)
    model = Model(1000)
    numbers = list(range(200, 1000))
    random.Random(1).shuffle(numbers)
    visits = np.arange(1, 801, dtype=np.uint32)
    with open_filter(tmp_path / "a", form=AS_GIVEN, shape=shape, limits=limits) as url_filter:
        url_filter.add_digests(model.digests[:400])
        model.add(range(400))
        generation = url_filter._store.state().generation
        flags = url_filter.add_whole(model.digests[numbers], visits)
        assert flags.tolist() == [number not in model.known for number in numbers]
        assert url_filter._store.state().generation == generation + 1
        model.known.update(dict(zip(numbers, visits.tolist(), strict=True)))
        model.require_same(url_filter)
        empty = url_filter.add_whole(model.digests[:0], visits[:0])
        assert (empty.size, url_filter._store.state().generation) == (0, generation + 1)
        for digests, counts, message in (
            (model.digests[[1, 1]], visits[:2], "digests must be distinct"),
            (model.digests[:2], visits[:3], "visits must be from 1 on, as many as digests"),
            (model.digests[:2], visits[:2] - 1, "visits must be from 1 on"),
        ):
            with pytest.raises(ValueError, match=message):
                url_filter.add_whole(digests, counts)
        model.require_same(url_filter)
    with open_filter(tmp_path / "a") as url_filter:
        model.require_same(url_filter)
        assert url_filter.rebuilt is None


def test_a_shared_store_is_not_changed_as_a_whole(redis_address):
    with (
        open_filter(f"{redis_address}#whole") as url_filter,
        pytest.raises(ValueError, match="a store that others share takes them in batches only"),
    ):
        url_filter.add_whole(digests_of_numbers([1]), np.ones(1, np.uint32))


def test_one_url_is_no_sequence_of_urls(tmp_path):
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        for method in (url_filter.add_many, url_filter.remove_many):
            for url in ("http://a.example/", b"http://a.example/"):
                with pytest.raises(TypeError, match="urls: expected a sequence of URLs"):
                    method(url)
        assert len(url_filter) == 0


def test_digests_of_another_type_are_refused(tmp_path):
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        for wrong in (np.zeros((3, 2)), np.zeros(4, np.uint64), np.zeros((2, 3), np.uint64)):
            for method in (url_filter.add_digests, url_filter.remove_digests, url_filter.counts):
                with pytest.raises(ValueError, match=r"digests must be uint64\[n, 2\], not "):
                    method(wrong)
        spread = digests_of_numbers(range(10))[::2]
        assert url_filter.add_digests(spread).all()
        assert (url_filter.counts(spread[::-1]) == 1).all()


# what is kept


@pytest.mark.parametrize("shape", TINY[:2])
def test_a_filter_goes_on_where_it_was_closed(tmp_path, shape):
    rng, model = random.Random(2), Model(500)
    for _ in range(6):
        with open_filter(tmp_path / "urls", form=AS_GIVEN, shape=shape) as url_filter:
            assert url_filter.rebuilt is None
            model.require_same(url_filter)
            random_work(url_filter, model, rng, 10, 300)
            model.require_same(url_filter)


def test_the_counters_file_is_of_no_importance(tmp_path):
    rng, model = random.Random(2), Model(500)
    file = tmp_path / "urls" / "counters.cbf"
    with open_filter(tmp_path / "other", form=AS_GIVEN) as url_filter:
        url_filter.add("x")
    of_another = (tmp_path / "other" / "counters.cbf").read_bytes()
    kept = None
    for content, reason in (
        (None, None),
        ("removed", "counters.cbf was missing"),
        (b"", "counters.cbf, header: not a file of counters"),
        ("damaged", "counters.cbf, counters: their checksum is wrong"),
        (of_another, "counters.cbf was of another store"),
        ("kept", "counters.cbf was not of the last changes"),
        (None, None),
    ):
        if content == "removed":
            file.unlink()
        elif content == "damaged":
            file.write_bytes(file.read_bytes()[:-1] + b"\xff")
        elif content == "kept":
            file.write_bytes(kept)
        elif content is not None:
            file.write_bytes(content)
        with open_filter(tmp_path / "urls", form=AS_GIVEN, shape=TINY[1]) as url_filter:
            assert (url_filter.rebuilt is None) == (reason is None)
            assert reason is None or reason in url_filter.rebuilt
            model.require_same(url_filter)
            random_work(url_filter, model, rng, 5, 300)
            model.require_same(url_filter)
        kept = kept or file.read_bytes()


def test_counters_later_than_the_store_are_of_no_use(tmp_path):
    model = Model(50)
    for _ in range(2):
        with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
            url_filter.add_digests(model.digests)
    file = tmp_path / "urls" / "counters.cbf"
    saved = load(file_at(file))
    saved.bloom.words[:] = 0
    saved.bloom.save(file_at(file), saved.store_id, saved.generation + 5)
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        assert "was of later changes than the store has" in url_filter.rebuilt
        assert not url_filter.add_digests(model.digests).any()


def test_counters_are_saved_now_and_then(tmp_path):
    limits = FilterLimits(unsaved_digests=500)
    file = tmp_path / "urls" / "counters.cbf"
    model = Model(3000)
    shape = BloomShape(1200, 24_000)
    generations = []
    with open_filter(tmp_path / "urls", form=AS_GIVEN, shape=shape, limits=limits) as url_filter:
        for start in range(0, 3000, 100):
            numbers = range(start, start + 100)
            url_filter.add_digests(model.digests[numbers])
            model.add(numbers)
            generations.append(load(file_at(file)).generation)
        model.require_same(url_filter)
    # each 500, or a quarter of the capacity, which was passed at 1,200 and 2,400
    assert sorted(set(generations)) == [0, 5, 10, 13, 19, 25]


def test_a_filter_grows_past_its_capacity(tmp_path):
    model = Model(5000)
    shape = BloomShape.of_paper(300)
    with open_filter(tmp_path / "urls", form=AS_GIVEN, shape=shape) as url_filter:
        for start in range(0, 5000, 250):
            numbers = range(start, start + 250)
            assert url_filter.add_digests(model.digests[numbers]).all()
            model.add(numbers)
            shape = url_filter.bloom.shape
            assert start + 250 <= shape.capacity < 2 * (start + 250) + 300
            assert shape.counters == 20 * shape.capacity
        model.require_same(url_filter)
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        assert url_filter.bloom.shape.capacity == 9600
        url_filter.rebuild(BloomShape.from_capacity(100, 0.01))
        assert url_filter.bloom.shape.capacity == 6400
        assert url_filter.bloom.shape.hashes == 7
        model.require_same(url_filter)


# interrupts


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("where", ["raise_", "lower", "fill", "between", "commit"])
@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_anywhere_spoils_nothing(tmp_path, monkeypatch, where, late):
    """Raised before or after a step of the work; the filter goes on, or is opened again."""
    rng, model = random.Random(4), Model(300)
    shape = BloomShape(400, 500, 1, 4)
    from mr_dedup.urls.counting_bloom import CountingBloom

    owner = CountingBloom if where in ("raise_", "lower", "fill") else RocksStore
    method = getattr(owner, where)
    calls = 0

    def sometimes(*arguments):
        nonlocal calls
        calls += 1
        if calls % 7 == 0 and not late:
            raise Interrupted
        result = method(*arguments)
        if calls % 7 == 0:
            raise Interrupted
        return result

    interrupts = 0
    for _ in range(4):
        with open_filter(tmp_path / "urls", form=AS_GIVEN, shape=shape) as url_filter:
            model.require_same(url_filter)
            monkeypatch.setattr(owner, where, sometimes)
            for _ in range(25):
                numbers = sorted(set(rng.choices(range(300), k=60)))
                adding = rng.random() < 0.5
                work = url_filter.add_digests if adding else url_filter.remove_digests
                try:
                    work(model.digests[numbers])
                except Interrupted:
                    interrupts += 1
                    monkeypatch.setattr(owner, where, method)
                    # all of it was done, or nothing
                    counts = url_filter.counts(model.digests[numbers]).tolist()
                    was = [model.known[number] for number in numbers]
                    if counts != was:
                        (model.add if adding else model.remove)(numbers)
                    model.require_same(url_filter)
                    monkeypatch.setattr(owner, where, sometimes)
                else:
                    (model.add if adding else model.remove)(numbers)
            monkeypatch.setattr(owner, where, method)
    assert interrupts > 5


def test_what_deliver_was_given_comes_again_if_it_fails(tmp_path):
    def broken(flags):
        delivered.append(flags.tolist())
        raise Interrupted

    delivered = []
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        digests = url_filter.digests_of(list("aab"))
        for _ in range(2):
            with pytest.raises(Interrupted):
                url_filter.add_digests(digests, broken)
        assert len(url_filter) == 0
        url_filter.add_digests(digests, lambda flags: delivered.append(flags.tolist()))
        url_filter.add_digests(digests, lambda flags: delivered.append(flags.tolist()))
    assert delivered == [[True, False, True]] * 3 + [[False] * 3]


# one writer of a folder, several of Redis


def test_one_process_writes_to_a_folder_at_a_time(tmp_path):
    with open_filter(tmp_path / "urls") as url_filter:
        with pytest.raises(
            MrDedupError, match=r"urls: process \d+ has it open for writing; one process"
        ):
            open_filter(tmp_path / "urls")
        url_filter.add("http://example.org")
    with open_filter(tmp_path / "urls") as url_filter:
        assert "http://example.org/" in url_filter


@pytest.mark.parametrize("journal_digests", [10, 300, 1 << 20])
def test_several_filters_share_a_store(redis_address, journal_digests):
    """Of different shapes, taking turns at random, some of them far behind."""
    rng, model = random.Random(journal_digests), Model(400)
    address = f"{redis_address}#shared-{journal_digests}"
    filters = [
        UrlFilter(RedisStore(address, journal_digests=journal_digests), AS_GIVEN, shape)
        for shape in (*TINY, BloomShape(10, 200))
    ]
    for _ in range(40):
        url_filter = rng.choice(filters)
        random_work(url_filter, model, rng, 1, 50)
        if rng.random() < 0.05:
            model.require_same(rng.choice(filters))
    for url_filter in filters:
        model.require_same(url_filter)
        url_filter.close()


def test_changes_while_a_filter_reads_all_of_the_store(redis_address, monkeypatch):
    address = f"{redis_address}#meanwhile"
    model = Model(3000)
    writer = UrlFilter(RedisStore(address), AS_GIVEN)
    writer.add_digests(model.digests[:1500])
    model.add(range(1500))
    between, calls = RedisStore.between, 0

    def slowly(store, *arguments):
        nonlocal calls
        calls += 1
        if calls % 5 == 0 and calls < 100:
            numbers = range(1500 + calls, 1505 + calls)
            writer.add_digests(model.digests[numbers])
            model.add(numbers)
            writer.remove_digests(model.digests[calls : calls + 3])
            model.remove(range(calls, calls + 3))
        return between(store, *arguments)

    monkeypatch.setattr(RedisStore, "between", slowly)
    reader = UrlFilter(RedisStore(address), AS_GIVEN, BloomShape(5000, 2_000_000, 4))
    # each segment, and some again
    assert calls > reader.bloom.shape.segments
    model.require_same(reader)
    reader.close()
    writer.close()


def test_a_store_that_was_replaced_is_told():
    with running() as address:
        url_filter = UrlFilter(RedisStore(address), AS_GIVEN)
        url_filter.add_many(list("abc"))
        with redis.Redis.from_url(address) as client:
            client.flushall()
        with pytest.raises(MrDedupError, match="was removed while it was open"):
            url_filter.add("d")
        RedisStore(address).close()
        with pytest.raises(MrDedupError, match="was replaced while it was open"):
            url_filter.add("d")
        url_filter.close()


def test_delivery_from_a_shared_store_comes_after_it_was_kept(redis_address):
    seen = []
    with open_filter(f"{redis_address}#delivery", form=AS_GIVEN) as url_filter:
        digests = url_filter.digests_of(list("ab"))
        url_filter.add_digests(
            digests, lambda flags: seen.append((flags.tolist(), len(url_filter)))
        )
    assert seen == [([True, True], 2)]


# forms and locations


def test_urls_are_brought_to_the_form_of_the_filter(tmp_path):
    with open_filter(tmp_path / "urls") as url_filter:
        assert url_filter.add("HTTP://Example.org:80/a#b")
        assert "http://example.org/a" in url_filter
        with pytest.raises(NotAUrlError, match="has no scheme and host"):
            url_filter.add_many(["http://example.org/c", "nonsense"])
        assert "http://example.org/c" not in url_filter


def test_a_filter_keeps_the_form_it_was_made_with(tmp_path):
    form = UrlForm(drop_index=True, mirrors=(("a.org", "b.org"),))
    with open_filter(tmp_path / "urls", form=form) as url_filter:
        url_filter.add("http://b.org/index.html")
    with open_filter(tmp_path / "urls") as url_filter:
        assert url_filter.form == form
        assert "http://a.org" in url_filter
    with pytest.raises(MrDedupError, match="was made with URLs of another form"):
        open_filter(tmp_path / "urls", form=AS_GIVEN)
    # and it is not left locked by that
    open_filter(tmp_path / "urls", form=form).close()


def test_places_where_no_filter_is(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    for create in (True, False):
        with pytest.raises(MrDedupError, match="mine: contains "):
            open_filter(tmp_path / "mine", create=create)
    with pytest.raises(MrDedupError, match="missing: contains no store of URLs"):
        open_filter(tmp_path / "missing", create=False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(MrDedupError, match=r"notes\.txt: .*"):
        open_filter(tmp_path / "mine" / "notes.txt")


def test_a_url_is_new_once_though_the_counters_cannot_be_saved(tmp_path, monkeypatch):
    """As on a full disk: the store has committed by then."""
    usual = CountingBloom.save

    def refuse(*_):
        raise MrDedupError("no space left on device")

    with open_filter(
        tmp_path / "urls", form=AS_GIVEN, limits=FilterLimits(unsaved_digests=1)
    ) as url_filter:
        url_filter._counters._unsaved_digests = 0
        monkeypatch.setattr(CountingBloom, "save", refuse)
        monkeypatch.setattr("mr_dedup.urls.counters._SAVED_SHARE", 1 << 40)
        assert url_filter.add("http://a.example/")
        assert not url_filter.add("http://a.example/")
        monkeypatch.setattr(CountingBloom, "save", usual)
        assert url_filter.add("http://b.example/")
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        assert "http://a.example/" in url_filter
        assert not url_filter.add("http://b.example/")


def test_a_string_with_half_a_surrogate_pair_is_not_a_url(tmp_path):
    with open_filter(tmp_path / "urls", form=AS_GIVEN) as url_filter:
        with pytest.raises(NotAUrlError, match="half of a surrogate pair"):
            url_filter.add("http://a.example/\ud800")
        assert len(url_filter) == 0
