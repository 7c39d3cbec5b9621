"""Run commands as users do, in this process or in one of their own."""

import itertools
import subprocess
import sys

import pytest

from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import RUNNERS


class Command:
    """A command of mr-dedup with its first words, such as ``Command("index", "create")``.

    ``capfd`` is pytest's fixture of that name.
    """

    def __init__(self, *words):
        self.words = words

    def argv(self, arguments):
        return [*self.words, *map(str, arguments)]

    def program(self, *arguments):
        """Return the command line that runs it as a process of its own."""
        return [sys.executable, "-m", "mr_dedup", *self.argv(arguments)]

    def __call__(self, capfd, *arguments):
        """Run it in this process; return exit code, output and errors."""
        code = main(self.argv(arguments))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    def done(self, capfd, *arguments):
        """Run it, which must succeed; return output and errors."""
        code, out, err = self(capfd, *arguments)
        assert code == 0, err
        return out, err

    def messages(self, capfd, *arguments):
        """Run it, which must succeed and print nothing but messages; return these."""
        out, err = self.done(capfd, *arguments)
        assert out == ""
        return err

    def mistake(self, capfd, *arguments):
        """Run it, which must fail by a usage error; return the only line of errors."""
        code, out, err = self(capfd, *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("mr-dedup: error: ")
        assert err.count("\n") == 1
        return err

    def start(self, *arguments, **options):
        """Start it as a process of its own with pipes for text, unless ``options`` say otherwise.

        ``options`` are those of ``subprocess.Popen``.
        """
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(self.program(*arguments), **{**pipes, **options})

    def piped(self, content, *arguments):
        """Run it as a process of its own with ``content`` as standard input; return its output."""
        done = subprocess.run(
            self.program(*arguments), input=content, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def by_turns(names, values, runners=RUNNERS):
    """Parametrise a test by ``values`` of ``names``, a tuple, each on one of the runners by turns.

    For what is done by the same code on every runner: each value and each runner is tried, not
    all pairs of them.
    """
    rows = [
        (*(value if len(names) > 1 else (value,)), runner)
        for value, runner in zip(values, itertools.cycle(runners), strict=False)
    ]
    return pytest.mark.parametrize((*names, "runner"), rows)
