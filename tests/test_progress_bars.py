"""Where progress bars are shown: on terminals and in notebooks, and nowhere else."""

import io
import subprocess
import sys
import types
import warnings

import pytest
import tqdm
import tqdm.auto

from mr_dedup import progress_bars
from mr_dedup.engines.reporting import Progress
from mr_dedup.progress_bars import bars_are_shown, hidden_bars, progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def standard_error(monkeypatch, kind):
    """Make standard error a stream of a kind; return it."""
    stream = {"terminal": Terminal, "pipe": io.StringIO, "closed": lambda: None}[kind]()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    return stream


def in_notebook(monkeypatch, *packages):
    """Make this the kernel of a notebook that has packages; return its standard error."""
    stream = standard_error(monkeypatch, "pipe")
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(
        progress_bars.importlib.util, "find_spec", lambda name: name in packages or None
    )
    return stream


def work():
    with progress_bar(" things", 3, min_seconds=0) as bar:
        for _ in range(3):
            bar.update()
    return bar


def test_a_terminal_shows_a_bar_that_disappears(monkeypatch):
    stream = standard_error(monkeypatch, "terminal")
    assert bars_are_shown()
    work()
    shown = stream.getvalue()
    assert "3.00/3.00" in shown
    assert shown.endswith("\r")
    assert tqdm.tqdm.monitor_interval == 0


@pytest.mark.parametrize("kind", ["pipe", "closed"])
def test_nothing_else_does(monkeypatch, kind):
    stream = standard_error(monkeypatch, kind)
    assert not bars_are_shown()
    assert work().disable
    with Progress() as progress:
        assert not progress.is_shown
    assert stream is None or stream.getvalue() == ""


def test_hidden_bars_are_not_shown(monkeypatch):
    stream = standard_error(monkeypatch, "terminal")
    with hidden_bars():
        assert not bars_are_shown()
        work()
    assert stream.getvalue() == ""
    assert bars_are_shown()


def test_a_notebook_without_widgets_shows_text_and_no_warning(monkeypatch):
    stream = in_notebook(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(work()) is tqdm.tqdm
    assert "/3.00" in stream.getvalue()
    with hidden_bars():
        assert work().disable


def test_a_notebook_with_widgets_has_the_bar_of_tqdm_for_it(monkeypatch):
    in_notebook(monkeypatch, "ipywidgets")

    class Widgets(tqdm.tqdm):
        pass

    monkeypatch.setattr(tqdm.auto, "tqdm", Widgets)
    bar = work()
    assert type(bar) is Widgets
    # each update is a message to the browser
    assert bar.mininterval == 0.1


def test_ipython_on_a_terminal_is_no_notebook(monkeypatch):
    shell = types.SimpleNamespace(config={"TerminalIPythonApp": {}})
    for each in (shell, None):
        ipython = types.SimpleNamespace(get_ipython=lambda each=each: each)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert not bars_are_shown()


DEDUP = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
if sys.argv[1] == "notebook":
    sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
    sys.modules["ipywidgets"] = None
import mr_dedup
assert "tqdm" not in sys.modules
with mr_dedup.dedup(["a text of five words", "another text of five words"]) as result:
    assert result.kept.num_rows == 2
"""


@pytest.mark.parametrize("where", ["notebook", "script"])
def test_functions_show_progress_in_notebooks_alone(where):
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", DEDUP, where],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ("map:   0%" in done.stderr) == (where == "notebook")
    assert done.stdout == ""
    assert where == "notebook" or done.stderr == ""
