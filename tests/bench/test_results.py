"""Files of results of benchmarks."""

import bench.__main__ as command
from bench import results
from bench.measure import Row

ROWS = [
    Row("urls", "a set", 1.5, note="é"),
    Row("urls", "ours", 0.5, 0.3, "a set", memory_bytes=1 << 20),
]


def test_rows_are_read_as_they_were_written(tmp_path):
    results.write(tmp_path / "out", "urls", "sets of URLs", 5, False, ROWS)
    results.write(tmp_path / "out", "hamming", "searches", 1, True, [])
    hamming, urls = results.read(tmp_path / "out")
    assert (hamming.name, hamming.is_quick, hamming.rows) == ("hamming", True, [])
    assert (urls.what, urls.rounds, urls.rows) == ("sets of URLs", 5, ROWS)
    assert urls.machine.startswith("Machine: ")


def test_a_benchmark_writes_its_rows(tmp_path, monkeypatch, capsys):
    class Module:
        @staticmethod
        def run(quick, rounds):
            yield from ROWS

    monkeypatch.setattr(command.importlib, "import_module", lambda name: Module)
    assert command.main(["--quick", "--only", "formats", "--out", str(tmp_path)]) == 0
    (written,) = results.read(tmp_path)
    assert (written.name, written.is_quick, written.rows) == ("formats", True, ROWS)
    assert "| 0.30 x a set" in capsys.readouterr().out


def test_committed_results_are_of_benchmarks_that_exist():
    found = results.read()
    assert {result.name for result in found} <= set(command.BENCHMARKS)
    assert not [result.name for result in found if result.is_quick]
