"""The staging folder: under a path that mrjob can read, whatever TMPDIR is called."""

import os
import tempfile
from pathlib import Path

import pytest
from mrjob.job import MRJob
from mrjob.step import MRStep

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import staging as module
from mr_dedup.errors import MrDedupError


class Echo(MRJob):
    """Prints what its input and its side file hold."""

    def configure_args(self):
        super().configure_args()
        self.add_file_arg("--side")

    def steps(self):
        return [MRStep(mapper_raw=self.read, reducer=lambda key, values: [(key, sum(values))])]

    def read(self, path, uri):
        yield Path(path).read_text() + Path(self.options.side).read_text(), 1


def test_it_goes_with_its_contents():
    with streaming.staging_folder() as folder:
        (folder / "x").write_text("x")
    assert not folder.exists()


def test_a_missing_temporary_folder_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(MrDedupError, match="no temporary directory"), streaming.staging_folder():
        pass


@pytest.mark.parametrize("runner", streaming.RUNNERS)
@pytest.mark.parametrize("name", ["a#b", "[a]", "a*?", "a\nb", "a'\"$b", "a\\b", "{a,b}", "\udcff"])
def test_a_job_runs_wherever_temporary_files_go(monkeypatch, tmp_path, runner, name):
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with streaming.staging_folder() as staging:
        for file, text in (("input", "a"), ("side", "b")):
            (staging / file).write_text(text)
        assert next(folder.iterdir()).samefile(staging)
        options = ["--side", str(staging / "side")]
        with streaming.run(Echo, options, [staging / "input"], staging, runner=runner) as result:
            assert "".join(part.read_text() for part in result.parts) == '"ab"\t1\n'
    assert list(folder.iterdir()) == []
    assert staging.parent in (folder, Path("/tmp")) or not staging.parent.exists()
    assert not os.path.lexists(staging)


def test_no_place_for_a_plain_name_is_one_line(monkeypatch, tmp_path):
    folder = tmp_path / "a#b"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(module, "_PLAIN_FOLDERS", (str(tmp_path / "nowhere"),))
    expected = pytest.raises(MrDedupError, match="a#b': its name has characters")
    with expected, streaming.staging_folder():
        pass
    assert list(folder.iterdir()) == []
