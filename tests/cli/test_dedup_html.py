"""De-duplication of pages of HTML: what is cut of them, in the summary and in the report."""

import json

import pytest

from tests.cli.running import Command

dedup = Command("dedup")

NOTICE = "<p>Meet the seller in a public place, and never send money in advance.</p>"


@pytest.mark.parametrize("engine", ["memory", "inline"])
def test_pages_whose_content_is_named_as_furniture_are_kept(capfd, tmp_path, engine):
    folder = tmp_path / "pages"
    folder.mkdir()
    for page in range(30):
        words = " ".join(f"word{page * 97 + n}" for n in range(60))
        content = f"<div class=ad><h1>Item</h1><p>{words}</p></div><nav><a href=/>menu</a></nav>"
        (folder / f"{page}.html").write_text(f"<body><div>{content}</div>{NOTICE}")
    out = tmp_path / "out"
    dedup.done(capfd, folder, "-o", out, "-r", engine)
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["documents_kept"], summary["documents_dropped"]) == (30, 0)
    assert summary["html_pages"] == 30
    assert 0 < summary["html_cut_share"] < 0.1
    assert "30 pages of HTML" in (out / "report.html").read_text()
