"""The compiled library: its choice, what its functions accept, and where it is kept."""

import json
import os
import shutil
import subprocess
import sys
import typing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import typing_extensions
from numpy.typing import NDArray

import mr_dedup
from mr_dedup.errors import MrDedupError
from mr_dedup.hamming.design import TableDesign
from mr_dedup.hamming.kernels import partition, permute_bits
from mr_dedup.index.kernels import FIELDS, permuted
from mr_dedup.kernels import library
from mr_dedup.kernels.compiler import Layout, chosen_targets, described
from mr_dedup.kernels.entry import ENTRIES, Matrix, entry
from mr_dedup.kernels.library import VARIES
from mr_dedup.kernels.targets import TARGETS, targets_for

PACKAGE = Path(mr_dedup.__file__).parent

# of a Core i7 of 2008, a Haswell, a Skylake-X, an Ice Lake and a Zen 4, shortened
NEHALEM = "fpu sse2 ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
HASWELL = f"{NEHALEM} movbe avx f16c abm bmi1 avx2 bmi2 fma"
SKYLAKE = f"{HASWELL} avx512f avx512dq avx512cd avx512bw avx512vl"
ICE_LAKE = f"{SKYLAKE} avx512vbmi avx512_vbmi2 avx512_vnni avx512_bitalg avx512_vpopcntdq"


@pytest.mark.parametrize(
    ("flags", "fastest"),
    [
        (NEHALEM, "x86-64-v2"),
        (HASWELL, "x86-64-v3"),
        (SKYLAKE, "x86-64-v4"),
        (ICE_LAKE, "x86-64-v4-vpopcnt"),
    ],
)
def test_a_processor_gets_the_fastest_library_that_it_runs(flags, fastest):
    names = targets_for("x86_64", set(flags.split()))
    assert names[0] == fastest
    assert names[-1] == "x86-64-v2"


def test_another_machine_is_refused():
    assert targets_for("aarch64", set()) == ["aarch64"]
    for machine, flags in (("riscv64", set()), ("x86_64", {"sse2"})):
        with pytest.raises(MrDedupError, match=f"not supported: {machine}; required are"):
            targets_for(machine, flags)


def test_targets_have_names():
    assert chosen_targets([]) == list(TARGETS)
    assert chosen_targets(["x86-64"]) == [each for each in TARGETS if "x86" in each]
    assert chosen_targets(["x86-64-v4", "aarch64"]) == ["x86-64-v4", "aarch64"]
    for name in ("x86-64-v9", "x86", ""):
        with pytest.raises(SystemExit, match=f"^{name}: not one of x86-64-v4-vpopcnt, "):
            chosen_targets([name])


VALUES = np.arange(8, dtype=np.uint64)
TABLES = np.zeros((8, 256), np.uint64)


@pytest.mark.parametrize(
    ("fingerprints", "tables", "reason"),
    [
        (VALUES.view(np.int64), TABLES, "array of uint64 with 1 dimensions, got int64"),
        (VALUES[::2], TABLES, r"contiguous .* shape \(4,\) and strides \(16,\)"),
        (VALUES, TABLES[0], r"with 2 dimensions, got uint64 with shape \(256,\)"),
        (VALUES, None, "'NoneType' object has no attribute 'dtype'"),
        (VALUES.tolist(), TABLES, "'list' object has no attribute 'dtype'"),
    ],
)
def test_what_is_not_of_the_type_is_refused(fingerprints, tables, reason):
    with pytest.raises(TypeError, match=rf"mr_dedup\.hamming\.kernels\.permute_bits: .*{reason}"):
        permute_bits(fingerprints, tables, np.empty(8, np.uint64))


def test_a_wrong_number_of_arguments_is_refused():
    with pytest.raises(TypeError, match="shorter"):
        permute_bits(VALUES, TABLES)
    with pytest.raises(TypeError, match="longer"):
        permute_bits(VALUES, TABLES, VALUES.copy(), 1)
    with pytest.raises(TypeError, match="arguments have no names"):
        permute_bits(VALUES, TABLES, out=VALUES.copy())


def test_numbers_keep_all_their_bits():
    tables = np.zeros((1, FIELDS + 2), np.uint64)
    tables[0, -1] = 2**64 - 1  # all bits, turned by 0
    for value in (0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF):
        found = permuted(np.uint64(value), tables, 0)
        assert isinstance(found, np.uint64)
        assert found == value


def test_arguments_may_be_bound():
    rng = np.random.default_rng(3)
    values, tables = rng.integers(0, 1 << 64, (2, 2048), np.uint64)
    tables, out = np.ascontiguousarray(tables.reshape(8, 256)), np.empty(2048, np.uint64)
    permute_bits(values, tables, out)
    expected = out.copy()
    bound = permute_bits.bind(VARIES, tables, VARIES)
    for size in (0, 1, 2048):
        some = np.zeros(size, np.uint64)
        bound(values[:size], some)
        assert some.tolist() == expected[:size].tolist()
    with pytest.raises(TypeError, match="array of uint64 with 1 dimensions, got uint32"):
        bound(values.astype(np.uint32), out)
    with pytest.raises(ValueError, match="shorter"):
        bound(values)
    with pytest.raises(TypeError, match="contiguous"):
        permute_bits.bind(VARIES, tables[::2], VARIES)


@pytest.mark.parametrize("has_fold", [False, True])
def test_a_none_chooses_other_code(has_fold):
    design = TableDesign.choose(3, 2)
    hashing = next(
        found
        for number in range(len(design.masks))
        if ((found := design.hashing(number, 4)).fold is not None) == has_fold
    )
    values = np.random.default_rng(has_fold).integers(0, 1 << 64, 1000, np.uint64)
    ends, out = np.empty(17, np.uint64), np.empty_like(values)
    partition(values, hashing, ends, out)
    assert sorted(out.tolist()) == sorted(values.tolist())
    assert ends[-2] == values.size


def test_every_entry_is_compiled():
    functions = library.load_kernels().functions
    names = {f"{each.function.__module__}.{each.function.__name__}" for each in ENTRIES}
    assert names - {f"{__name__}.{each}" for each in ("either", "unknown")} <= set(functions)


class Pair(NamedTuple):
    array: NDArray[np.uint32 | np.uint64]
    size: int | None


@entry
def either(pair: Pair, matrix: Matrix[np.float32], also: tuple[bool, float]) -> tuple[int, float]:
    return 0, 0.0


@entry
def unknown(texts: list[str]) -> None:
    pass


def test_annotations_are_the_types():
    made = described(either.function)
    assert [layout.manifest for layout in made.layouts] == [
        {
            "tuple": [
                {"array": ["uint32", "uint64"], "dimensions": 1},
                {"number": "int64", "optional": True},
            ],
            "type": Pair,
        },
        {"array": ["float32"], "dimensions": 2},
        {"tuple": [{"number": "bool"}, {"number": "float64"}], "type": None},
    ]
    assert made.results == ["int64", "float64"]
    assert sorted(made.variants) == [
        "uint32 int64", "uint32 none", "uint64 int64", "uint64 none",
    ]  # fmt: skip


def test_an_alias_of_an_array_type_is_read_as_this():
    """NDArray is one from NumPy 2.5 on, which Python 3.12 and later get."""
    kind = typing.TypeVar("kind", bound=np.generic)
    alias = typing_extensions.TypeAliasType(
        "NDArray", np.ndarray[tuple[typing.Any, ...], np.dtype[kind]], type_params=(kind,)
    )
    layout, plain = Layout(alias[np.uint32], "texts"), Layout(NDArray[np.uint32], "texts")
    assert (layout.manifest, layout.choices) == (plain.manifest, plain.choices)
    assert layout.choices == [["uint32"]]


def test_a_type_that_kernels_cannot_have_is_refused():
    with pytest.raises(TypeError, match=r"unknown: texts: a kernel has no parameter of type list"):
        described(unknown.function)


# where it is kept


@pytest.fixture
def sources(tmp_path):
    """A copy of the sources."""
    folder = tmp_path / "copy" / "mr_dedup"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__", "libraries"))
    return folder


def test_the_digest_is_that_of_what_kernels_are_made_of(sources):
    def digest():
        return library.sources_digest(sources)

    first = digest()
    assert first == library.sources_digest()
    with (sources / "cli" / "main.py").open("a") as file:
        file.write("# more\n")
    assert digest() == first
    for name in ("features/token_kernels.py", "hamming/design.py", "kernels/llvm/bits.py"):
        with (sources / name).open("a") as file:
            file.write("# more\n")
        assert digest() != first
        first = digest()


def test_modules_with_kernels_have_names_that_say_so():
    marks = "from mr_dedup.kernels.entry import"
    marked = {path for path in PACKAGE.rglob("*.py") if f"\n{marks}" in path.read_text()}
    assert marked <= set(library.kernel_sources(PACKAGE))
    assert all("kernels" in path.name or path.parent.name == "kernels" for path in marked)


def show(sources, **environment):
    """Load the kernels of a copy of the sources; return what the process prints."""
    usual = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MR_DEDUP_CACHE_DIR", "XDG_CACHE_HOME")
    }
    return subprocess.run(
        [sys.executable, "-c", "from mr_dedup.cli.main import main; main(['warm-up'])"],
        cwd=sources.parent,
        env={**usual, "PYTHONPATH": str(sources.parent), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def kept(folder):
    """Put the compiled library of this process into a cache, as if it had been compiled there."""
    path = library.load_kernels().path
    made = folder / f"{library.sources_digest()}-{path.stem}"
    shutil.copytree(path.parent, made)
    return made / path.name


def test_it_is_found_in_the_first_cache_that_has_it(sources, tmp_path):
    chosen, home, temporary = (tmp_path / name for name in ("chosen", "home", "tmp"))
    environment = {
        "MR_DEDUP_CACHE_DIR": str(chosen),
        "XDG_CACHE_HOME": str(home),
        "TMPDIR": str(temporary),
    }
    for folder in (
        temporary / f"mr_dedup-kernels-{os.getuid()}", home / "mr_dedup" / "kernels", chosen,
    ):  # fmt: skip
        folder.mkdir(mode=0o700, parents=True)
        expected = kept(folder)
        assert show(sources, **environment).stdout == f"{expected}\n"


def test_a_cache_that_others_may_write_to_is_not_used(sources, tmp_path):
    chosen, home = tmp_path / "chosen", tmp_path / "home" / "mr_dedup" / "kernels"
    for folder, mode in ((chosen, 0o777), (home, 0o700)):
        folder.mkdir(parents=True)
        folder.chmod(mode)
        expected = kept(folder)
    found = show(sources, MR_DEDUP_CACHE_DIR=str(chosen), XDG_CACHE_HOME=str(tmp_path / "home"))
    assert found.stdout == f"{expected}\n"


def test_libraries_of_the_package_come_first(sources):
    shutil.copytree(library.load_kernels().path.parent, sources / "kernels" / "libraries")
    found = show(sources)
    assert Path(found.stdout.strip()).parent == sources / "kernels" / "libraries"


def test_a_package_in_a_zip_file_has_its_library_copied(sources, tmp_path):
    path = library.load_kernels().path
    shutil.copytree(path.parent, sources / "kernels" / "libraries")
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", sources.parent)
    shutil.rmtree(sources)
    cache = tmp_path / "cache"
    for _ in range(2):
        done = show(sources, PYTHONPATH=archive, MR_DEDUP_CACHE_DIR=str(cache))
        copied = Path(done.stdout.strip())
        assert copied.read_bytes() == path.read_bytes(), done.stderr
        assert [each.name for each in cache.iterdir()] == [copied.parent.name]
        assert copied.parent.parent == cache


@pytest.mark.parametrize("damage", ["cut", "a byte", "manifest"])
def test_a_damaged_library_is_one_line(sources, damage):
    folder = sources / "kernels" / "libraries"
    shutil.copytree(library.load_kernels().path.parent, folder)
    (path,) = folder.glob("*.so")
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:1000])
    elif damage == "a byte":
        path.write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
    else:
        path = folder / "kernels.json"
        path.write_text(path.read_text()[:-10])
    done = show(sources)
    assert done.stderr.startswith(f"mr-dedup: error: {folder}: damaged, install mr-dedup again: ")
    assert done.stderr.count("\n") == 1


def test_without_numba_the_reason_is_one_line(sources, tmp_path):
    """As in a checkout of which only the requirements of users are installed."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "numba.py").write_text("raise ModuleNotFoundError(\"No module named 'numba'\")\n")
    done = show(
        sources,
        PYTHONPATH=os.pathsep.join([str(blocked), str(sources.parent)]),
        MR_DEDUP_CACHE_DIR=str(tmp_path / "cache"),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    assert done.stderr == (
        "mr-dedup: error: compiled kernels are missing, and compiling them failed: "
        "ModuleNotFoundError: No module named 'numba'\n"
    )


@pytest.mark.slow
def test_processes_that_need_it_at_once_compile_it_once(sources, tmp_path):
    cache = tmp_path / "cache"
    program = "from mr_dedup.kernels.library import load_kernels; print(load_kernels().path)"
    environment = {
        **os.environ, "PYTHONPATH": str(sources.parent), "MR_DEDUP_CACHE_DIR": str(cache),
    }  # fmt: skip
    with (sources / "features" / "token_kernels.py").open("a") as file:
        file.write("# not compiled yet\n")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=sources.parent, env=environment,
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    (path,) = {process.communicate()[0] for process in started}
    folder = Path(path.strip()).parent
    assert json.loads((folder / "kernels.json").read_text())["functions"]
    assert {each.name for each in cache.iterdir()} == {folder.name, f"{folder.name}.lock"}
