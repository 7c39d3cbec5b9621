"""Names of copies in messages, against replacing each path by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.cli.copy_names import as_named, forget_copies, name_copies
from mr_dedup.cli.main import main
from tests.formats.test_linear_reading import calls

PARTS = st.sampled_from(["/", "s/", "0", "00", "1", "/a", " ", ":"])


@pytest.fixture(autouse=True)
def none_left():
    forget_copies()
    yield
    forget_copies()


@given(
    st.sets(st.text("01", min_size=3, max_size=3), max_size=9),
    st.lists(st.one_of(PARTS, st.text("01/", max_size=4)), max_size=12).map("".join),
    st.data(),
)
def test_every_path_is_replaced(numbers, text, data):
    names = {f"/s/{number}/a": f"<{n}>" for n, number in enumerate(sorted(numbers))}
    for name in data.draw(st.lists(st.sampled_from(sorted(names)), max_size=3)) if names else []:
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + name + text[at:]
    forget_copies()
    name_copies(names)
    expected = text
    for path, name in names.items():
        expected = expected.replace(path, name)
    assert as_named(text) == expected


def test_names_of_a_directory_stand_before_those_in_it():
    name_copies({"/s/7/pages": "s3://crawl/pages"})
    name_copies({"/s/8/x y": "s3://crawl/x y"})
    assert (
        as_named("/s/7/pages/a.txt: and /s/8/x y") == "s3://crawl/pages/a.txt: and s3://crawl/x y"
    )


def test_the_number_of_copies_does_not_matter():
    name_copies({f"/s/{n:06}/a": f"s3://crawl/{n}" for n in range(100_000)})
    text = "/s/000077/a: is empty"
    assert as_named(text) == "s3://crawl/77: is empty"
    assert calls(lambda: as_named(text)) < 100


def test_a_command_knows_nothing_of_copies_of_the_one_before(capfd):
    name_copies({"nowhere": "s3://crawl/other"})
    assert main(["inspect", "nowhere"]) == 2
    assert "nowhere: " in capfd.readouterr().err
