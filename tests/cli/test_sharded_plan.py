"""What --dry-run prints of a run on Spark or Hadoop, and its price."""

import re

import pytest

from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.running import Command

dedup = Command("dedup")


@pytest.fixture
def pages(tmp_path):
    return write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1))


@pytest.mark.parametrize(
    ("runner", "start", "rate", "tasks"),
    [
        ("spark", 12, 26, r"\d+ map tasks"),
        ("hadoop", 35, 85, "1 part, about 1 GB of them a map task"),
    ],
)
def test_the_plan_of_a_run_on_a_cluster(capfd, pages, tmp_path, runner, start, rate, tasks):
    pages.write_bytes(pages.read_bytes() * 5000)
    size = pages.stat().st_size
    words = [pages, "-o", tmp_path / "out", "-r", runner, "--dry-run"]
    out, _ = dedup.done(capfd, *words, "--price", "36")
    hours = (start + rate * size / 1e9) / 3600
    found = re.search(r"about (\S+) core-hours, \$(\S+) at \$36 a core-hour", out)
    assert [float(each) for each in found.groups()] == pytest.approx([hours, 36 * hours], rel=0.01)
    assert re.search(rf"^fingerprint: {tasks}\n", out, re.M)
    assert [line.split(":")[0] for line in out.splitlines() if re.match(r"[a-z]+: ", line)] == [
        "fingerprint", "cluster", "resolve", "keep",
    ]  # fmt: skip
    assert "$" not in dedup.done(capfd, *words)[0]
    assert [path.name for path in tmp_path.iterdir()] == ["pages.jsonl"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-r", "spark", "--price", "1"], "--price: needs --dry-run, and -r spark or -r hadoop"),
        (["--dry-run", "--price", "1"], "--price: needs --dry-run, and -r spark or -r hadoop"),
    ],
)
def test_a_price_needs_a_plan(capfd, pages, tmp_path, words, said):
    assert (
        dedup.mistake(capfd, pages, "-o", tmp_path / "out", *words) == f"mr-dedup: error: {said}\n"
    )


@pytest.mark.parametrize("price", ["-1", "nan", "inf", "a dollar"])
def test_what_is_no_price(capfd, pages, tmp_path, price):
    with pytest.raises(SystemExit):
        dedup(capfd, pages, "-o", tmp_path / "out", "-r", "spark", "--dry-run", "--price", price)
    assert f"expected a price in dollars, got {price!r}" in capfd.readouterr().err
