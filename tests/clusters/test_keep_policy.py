"""Policies against Python's sort by tuples."""

import dataclasses
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters.keep_policy import KINDS, KeepPolicy, Preference
from tests.clusters.clustered import Page, columns


def whole(page, name, sign):
    """A key for a whole number, last if there is none."""
    value = page.fields.get(name, "")
    readable = value.removeprefix("-").isdecimal()
    return not readable, sign * int(value) if readable else 0


def language(page):
    return {"en": 0, "de": 1}.get(page.fields.get("lang"), 2)


def ranked_language(page):
    if page.fields.get("lang") is None:
        return 3
    return {"en": 0, "de": 2}.get(page.fields["lang"], 1)


KEYS = {
    "first": lambda page: (page.file, page.place),
    "longest": lambda page: -len(page.text.encode()),
    "shortest": lambda page: len(page.text.encode()),
    "newest:year": lambda page: whole(page, "year", -1),
    "oldest:year": lambda page: whole(page, "year", 1),
    "highest:score": lambda page: whole(page, "score", -1),
    "lowest:score": lambda page: whole(page, "score", 1),
    "prefer:lang=en,de": language,
    "rank:lang=en,de": language,
    "rank:lang=en,*,de": ranked_language,
}


def best_first(pages, names):
    return sorted(
        pages,
        key=lambda page: (
            *(KEYS[name](page) for name in names),
            page.id.encode(),
            page.file,
            page.place,
        ),
    )


def ranked(pages, names):
    documents, _ = columns(pages)
    return [pages[i] for i in KeepPolicy.parse(names).rank(documents)]


pages_of_any_kind = st.lists(
    st.builds(
        Page,
        id=st.sampled_from(["a", "b", "ä", "中", "a0", ""]),
        text=st.sampled_from(["", "x", "äh", "yy", "long text"]),
        file=st.integers(0, 2),
        place=st.integers(0, 3),
        fields=st.fixed_dictionaries(
            {},
            optional={
                "year": st.sampled_from(["1999", "2024", "2023", "soon", ""]),
                "score": st.sampled_from(["-1", "0", "10", "9", "x"]),
                "lang": st.sampled_from(["en", "de", "fr", "EN"]),
            },
        ),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda page: (page.file, page.place),
)


@given(
    pages_of_any_kind,
    st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_policy_orders_as_python_does_whatever_the_order_before(pages, names, rng):
    # a field that no page has is no column
    everything = {"year": "1970", "score": "0", "lang": "en"}
    pages = [*pages, Page(id="z", file=3, fields=everything)]
    expected = best_first(pages, names)
    assert ranked(pages, names) == expected
    rng.shuffle(pages)
    assert ranked(pages, names) == expected


def test_what_cannot_be_used_is_last_and_counted():
    values = {"1": "2024-01-01", "2": None, "3": "2023", "4": "soon", "5": "", "6": "2024-01-02"}
    pages = [
        Page(id=id, place=int(id), fields={} if value is None else {"date": value})
        for id, value in values.items()
    ]
    documents, _ = columns(pages)
    for kind, order in (("newest", "613245"), ("oldest", "316245")):
        ranking = KeepPolicy.parse([f"{kind}:date"]).rank(documents)
        assert "".join(pages[i].id for i in ranking) == order
    policy = KeepPolicy.parse(["highest:date", "prefer:date=2023,soon", "newest:date"])
    assert "".join(pages[i].id for i in policy.rank(documents)) == "346125"
    assert documents.fields is not None
    dates = documents.fields["date"].combine_chunks()
    assert [step.unordered(dates) for _, step in policy.by_fields] == [4, 0, 2]


def test_what_is_equal_goes_by_id_then_by_file_and_place():
    pages = [
        Page("b", file=0, place=0),
        Page("a", file=1, place=5),
        Page("a", file=0, place=9),
        Page("a", file=1, place=4),
    ]
    assert ranked(pages, ["longest"]) == [pages[2], pages[3], pages[1], pages[0]]
    assert ranked(pages, ["first"]) == [pages[0], pages[2], pages[3], pages[1]]


def test_the_fields_that_are_needed():
    policy = KeepPolicy.parse(["newest:date", "longest", "lowest:rank", "oldest:date", "first"])
    assert policy.fields == ("date", "rank")
    assert str(policy) == "newest:date, longest, lowest:rank, oldest:date, first"
    assert KeepPolicy.parse(["prefer:dc:language=en,de"]).fields == ("dc:language",)


@pytest.mark.parametrize("name", [*KEYS, "newest:dc:date", "prefer:a=b=c"])
def test_preferences_are_parsed_as_they_are_written(name):
    assert str(Preference.parse(name)) == name
    assert Preference.parse(name).kind in KINDS


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "a preference is one of first, longest, .*, not ''"),
        ("biggest", "a preference is one of .*, not 'biggest'"),
        ("newest", "newest needs a field"),
        ("newest:", "newest needs a field"),
        ("prefer:", "prefer needs a field"),
        ("prefer:=en", "prefer needs a field"),
        ("longest:text", "longest takes no field, got 'text'"),
        ("first:", "first takes no field, got ''"),
        ("prefer:lang", "prefer:lang: rank and prefer, and these alone, need values"),
        ("prefer:lang=", "expected distinct values, none of them empty"),
        ("prefer:lang=en,,de", "expected distinct values, none of them empty"),
        ("prefer:lang=en,en", "expected distinct values, none of them empty"),
    ],
)
def test_preferences_that_do_not_exist_are_refused(name, reason):
    with pytest.raises(ValueError, match=reason):
        Preference.parse(name)


@pytest.mark.parametrize("texts", [[], (), "longest"])
def test_a_policy_is_one_preference_or_more(texts):
    with pytest.raises(ValueError, match="policy: expected one preference or more"):
        KeepPolicy.parse(texts)


def test_a_field_that_the_documents_lack_is_named():
    documents, _ = columns([Page(fields={"lang": "en"})])
    with pytest.raises(
        ValueError, match=r"newest:date needs 'date', the documents have \['lang'\]"
    ):
        KeepPolicy.parse(["newest:date"]).rank(documents)
    documents, _ = columns([Page()])
    with pytest.raises(ValueError, match=r"needs 'date', the documents have \[\]"):
        KeepPolicy.parse(["newest:date"]).rank(documents)


def test_no_documents_have_an_order_too():
    documents, _ = columns([])
    assert KeepPolicy.parse(["first"]).rank(documents).tolist() == []


def test_thirty_thousand_documents():
    rng = random.Random(1)
    pages = [
        Page(str(rng.randrange(1000)), "x" * rng.randrange(9), rng.randrange(5), place)
        for place in range(30_000)
    ]
    assert ranked(pages, ["shortest"]) == best_first(pages, ["shortest"])


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ids", pa.array(["a", "b"]), "ids: expected a pyarrow LargeStringArray without nulls"),
        ("ids", pa.array(["a", None], pa.large_string()), "without nulls"),
        ("clusters", np.zeros(2, np.int64), r"clusters: expected uint64\[n\], got int64"),
        ("positions", np.zeros(3, np.int64), "positions: expected 2 entries, got 3"),
        ("fields", pa.table({"f": pa.array(["x"], pa.large_string())}), "fields: expected 2"),
        ("fields", pa.table({"f": [1, 2]}), "fields: 'f' is int64, not large_string"),
    ],
)
def test_columns_that_do_not_fit_are_refused(name, value, reason):
    documents, _ = columns([Page(place=0), Page(place=1)])
    with pytest.raises(ValueError, match=reason):
        dataclasses.replace(documents, **{name: value})
