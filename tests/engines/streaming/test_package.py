"""The package as it is shipped to nodes."""

import subprocess
import sys
import zipfile

import mr_dedup
from mr_dedup.engines.package import pack


def test_it_is_whole_and_the_same_each_time(tmp_path):
    digests = {pack(tmp_path / f"{number}.zip") for number in range(2)}
    assert len(digests) == 1
    assert (tmp_path / "0.zip").read_bytes() == (tmp_path / "1.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "0.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "code")
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o644}
    done = subprocess.run(
        [sys.executable, "-c", "import mr_dedup.jobs.query as q; print(q.__file__)"],
        env={"PYTHONPATH": str(tmp_path / "code")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "code" / "mr_dedup" / "jobs" / "query.py")
    assert mr_dedup.__version__ in (tmp_path / "code" / "mr_dedup" / "__init__.py").read_text()
