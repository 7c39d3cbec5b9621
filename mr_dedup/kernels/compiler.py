"""The compiler of kernels: writes all entries as one library of machine code.

    python -m mr_dedup.kernels.compiler DIRECTORY [TARGET…]

Needs numba, llvmlite and a C compiler, which links. numba types and lowers each function; what it
makes of all of them is one LLVM module, which is optimised once, for each target in turn. An entry
becomes a C function of one argument, an array of 64-bit slots: the address and the dimensions of
each array, numbers as they are; results are written over them. It returns 0, or 1 if an exception
was raised.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import itertools
import json
import platform
import subprocess
import types as python_types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mr_dedup.kernels import entry
from mr_dedup.kernels.library import kernel_sources, sources_digest
from mr_dedup.kernels.targets import TARGETS

_ALLOCATOR = """
define noalias ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %meminfo = call ptr @malloc(i64 48)
  %none = icmp eq ptr %meminfo, null
  br i1 %none, label %failed, label %allocate
allocate:
  %wide = zext i32 %align to i64
  %room = add i64 %size, %wide
  %data = call ptr @malloc(i64 %room)
  %short = icmp eq ptr %data, null
  br i1 %short, label %release, label %fill
fill:
  %number = ptrtoint ptr %data to i64
  %over = urem i64 %number, %wide
  %none_over = icmp eq i64 %over, 0
  %gap = sub i64 %wide, %over
  %skip = select i1 %none_over, i64 0, i64 %gap
  %aligned = getelementptr i8, ptr %data, i64 %skip
  store i64 1, ptr %meminfo
  %at_block = getelementptr i8, ptr %meminfo, i64 16
  store ptr %data, ptr %at_block
  %at_data = getelementptr i8, ptr %meminfo, i64 24
  store ptr %aligned, ptr %at_data
  ret ptr %meminfo
release:
  call void @free(ptr %meminfo)
  br label %failed
failed:
  ret ptr null
}
define noalias ptr @NRT_MemInfo_new_varsize_dtor(i64 %size, ptr %dtor) {
  %meminfo = call ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 16)
  ret ptr %meminfo
}
define void @NRT_MemInfo_call_dtor(ptr %meminfo) {
  %at_block = getelementptr i8, ptr %meminfo, i64 16
  %data = load ptr, ptr %at_block
  call void @free(ptr %data)
  call void @free(ptr %meminfo)
  ret void
}
declare ptr @malloc(i64)
declare void @free(ptr)
"""
"""Memory of what a kernel makes: arrays, and the list that sorting uses as a stack, of numbers.

A count of references and, where numba looks for it, the address of the data.
"""


class Layout:
    """The types of one parameter.

    Attributes:
        manifest: What it is made of: an array, a number, or a tuple of such.
        choices: The types that each array and number may have, in order.
    """

    def __init__(self, annotation: Any, name: str) -> None:
        self.choices: list[list[str]] = []
        self.manifest = self._read(annotation, name)

    def _read(self, annotation: Any, name: str) -> Any:
        alias = typing.get_origin(annotation)
        # from NumPy 2.5 on NDArray is an alias, as the statement type of Python 3.12 makes one
        if hasattr(alias, "__value__"):
            annotation = alias.__value__[typing.get_args(annotation)]
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is np.ndarray:
            shape, kind = arguments
            dtypes = [
                np.dtype(each).name
                for each in typing.get_args(typing.get_args(kind)[0]) or typing.get_args(kind)
            ]
            dimensions = 2 if typing.get_args(shape) == (int, int) else 1
            self.choices.append(dtypes)
            return {"array": dtypes, "dimensions": dimensions}
        if origin is tuple:
            return {"tuple": [self._read(each, name) for each in arguments], "type": None}
        if isinstance(annotation, type) and issubclass(annotation, tuple):
            fields = typing.get_type_hints(annotation)
            return {
                "tuple": [self._read(each, f"{name}.{key}") for key, each in fields.items()],
                "type": annotation,
            }
        if origin in (typing.Union, python_types.UnionType) and type(None) in arguments:
            (number,) = (each for each in arguments if each is not type(None))
            self.choices.append([_number(number, name), "none"])
            return {"number": _number(number, name), "optional": True}
        self.choices.append([_number(annotation, name)])
        return {"number": _number(annotation, name)}


def _number(annotation: Any, name: str) -> str:
    if annotation in (int, float, bool):
        return {int: "int64", float: "float64", bool: "bool"}[annotation]
    if isinstance(annotation, type) and issubclass(annotation, np.number):
        return np.dtype(annotation).name
    raise TypeError(f"{name}: a kernel has no parameter of type {annotation}")


class _Wrapper:
    """The function of one slot array that calls an entry, for one choice of types."""

    def __init__(self, layouts: list[Layout], chosen: list[str], results: list[str]) -> None:
        self.slots = 0
        self.classes: dict[str, type] = {}
        self._chosen = iter(chosen)
        arguments = ", ".join(self._argument(layout.manifest) for layout in layouts)
        lines = [f"result = kernel({arguments})"]
        for i, kind in enumerate(results):
            value = "result" if len(results) == 1 else f"result[{i}]"
            lines.append(
                f"floats[{i}] = {value}" if kind == "float64" else f"slots[{i}] = int64({value})"
            )
        size = max(self.slots, len(results), 1)
        self.source = (
            "def wrapper(address):\n"
            f"    slots = carray(pointer(address), ({size},), int64)\n"
            f"    floats = carray(pointer(address), ({size},), float64)\n"
            + "".join(f"    {line}\n" for line in lines)
        )

    def _next(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _argument(self, layout: Any) -> str:
        if "array" in layout:
            dtype, at = next(self._chosen), self._next()
            shape = "".join(f"slots[{self._next()}], " for _ in range(layout["dimensions"]))
            return (
                f"carray(pointer(slots[{at}]), ({shape}), {'bool_' if dtype == 'bool' else dtype})"
            )
        if "tuple" in layout:
            fields = "".join(f"{self._argument(each)}, " for each in layout["tuple"])
            if layout["type"] is None:
                return f"({fields})"
            name = f"class_{layout['type'].__name__}_{id(layout['type'])}"
            self.classes[name] = layout["type"]
            return f"{name}({fields})"
        kind = next(self._chosen)
        if kind == "none":
            return "None"
        at = self._next()
        return f"floats[{at}]" if kind == "float64" else f"{kind}(slots[{at}])"


class _Compiler:
    """Numba's dispatchers of all kernels, made as they are needed."""

    def __init__(self) -> None:
        self._made: dict[Callable[..., Any], Any] = {}

    def dispatcher(self, function: Callable[..., Any]) -> Any:
        """Return what numba calls when a kernel calls ``function``."""
        if function not in self._made:
            if function in entry.INTRINSICS:
                module, name = entry.INTRINSICS[function]
                self._made[function] = getattr(importlib.import_module(module), name)
            else:
                import numba

                options = {
                    "nogil": True,
                    "no_cpython_wrapper": True,
                    "no_cfunc_wrapper": True,
                    **entry.KERNELS[function],
                }
                self._made[function] = numba.njit(**options)(self._bound(function))
        return self._made[function]

    def _bound(self, function: Any) -> Callable[..., Any]:
        """Return ``function`` with the dispatchers of the kernels that it names."""
        names = dict(function.__globals__)
        for name in _names(function.__code__):
            value = names.get(name)
            value = value.function if isinstance(value, entry.Entry) else value
            if isinstance(value, python_types.FunctionType) and (
                value in entry.KERNELS or value in entry.INTRINSICS
            ):
                names[name] = self.dispatcher(value)
        bound = python_types.FunctionType(
            function.__code__, names, function.__name__, function.__defaults__
        )
        bound.__module__, bound.__qualname__ = function.__module__, function.__qualname__
        return bound


def _names(code: python_types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            yield from _names(constant)


def jit(function: Callable[..., Any]) -> Any:
    """Return a kernel as numba's dispatcher, which compiles it for this process when it is called.

    For tests of kernels that no entry makes accessible.
    """
    import numba

    compiler = _Compiler()
    plain = function.function if isinstance(function, entry.Entry) else function
    return numba.njit(nogil=True)(compiler._bound(plain))


def _load_kernels() -> None:
    package = Path(__file__).parents[1]
    for path in kernel_sources(package):
        if path.parent.name != "llvm" and path.name != "compiler.py":
            module = path.relative_to(package.parent).with_suffix("")
            importlib.import_module(".".join(module.parts).removesuffix(".__init__"))


def chosen_targets(names: list[str]) -> list[str]:
    """Return the targets of names, each of one or of a machine; all if there are none."""
    chosen: list[str] = []
    for name in names:
        matching = [each for each in TARGETS if each == name or each.startswith(f"{name}-v")]
        if not matching or ("-v" in name and name not in TARGETS):
            raise SystemExit(f"{name}: not one of {', '.join(TARGETS)}")
        chosen += [name] if name in TARGETS else matching
    return chosen or list(TARGETS)


def compile_library(folder: Path, targets: list[str]) -> None:
    """Write ``kernels.json`` and a library for each of ``targets`` to a directory."""
    from mr_dedup.kernels.lowering import Lowering

    _load_kernels()
    lowering = Lowering()
    lowering.link(_ALLOCATOR)
    manifest: dict[str, Any] = {"sources": sources_digest(), "functions": {}}
    compiler = _Compiler()
    for made in entry.ENTRIES:
        description = described(made.function)
        for key, chosen in description.variants.items():
            wrapper = _Wrapper(description.layouts, chosen, description.results)
            names = {**wrapper.classes, "kernel": compiler.dispatcher(made.function)}
            lowering.add(description.symbol(key), wrapper.source, names)
        manifest["functions"][description.name] = description.manifest()
    folder.mkdir(parents=True, exist_ok=True)
    manifest["libraries"] = {}
    for target in targets:
        path = _link(lowering.object_code(TARGETS[target]), folder, target)
        manifest["libraries"][target] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "kernels.json").write_text(json.dumps(manifest))


class Description(NamedTuple):
    """How an entry is called: the types of its parameters and results, and all choices of types."""

    name: str
    layouts: list[Layout]
    results: list[str]
    is_tuple: bool
    variants: dict[str, list[str]]

    def symbol(self, variant: str) -> str:
        """Return the name under which the library exports a choice of types."""
        return "_".join([self.name, *variant.split()]).replace(".", "_")

    def manifest(self) -> dict[str, Any]:
        """Return what library.Function needs to know, as JSON."""
        return {
            "parameters": [_plain(layout.manifest) for layout in self.layouts],
            "results": self.results,
            "is_tuple": self.is_tuple,
            "variants": {key: self.symbol(key) for key in self.variants},
        }


def described(function: Any) -> Description:
    """Return how an entry is called, by its annotations.

    Raises:
        TypeError: A kernel cannot have such a parameter or result.
    """
    name = f"{function.__module__}.{function.__name__}"
    hints = typing.get_type_hints(function)
    returned = hints.pop("return")
    layouts = [Layout(kind, f"{name}: {key}") for key, kind in hints.items()]
    choices = [each for layout in layouts for each in layout.choices]
    variants = {
        " ".join(one for one, all_ in zip(chosen, choices, strict=True) if len(all_) > 1): list(
            chosen
        )
        for chosen in itertools.product(*choices)
    }
    is_tuple = typing.get_origin(returned) is tuple
    return Description(name, layouts, _results(returned, name), is_tuple, variants)


def _results(returned: Any, name: str) -> list[str]:
    if returned is type(None):
        return []
    kinds = typing.get_args(returned) if typing.get_origin(returned) is tuple else (returned,)
    return [_number(kind, f"{name}: the result") for kind in kinds]


def _plain(layout: Any) -> Any:
    """Return a layout without classes."""
    if "tuple" in layout:
        return {"tuple": [_plain(each) for each in layout["tuple"]]}
    return layout


def _link(code: bytes, folder: Path, target: str) -> Path:
    """Write a shared library of an object file; by Debian's cross compiler for another machine."""
    machine = TARGETS[target].triple.partition("-")[0]
    linker = "cc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"
    object_file, library = folder / f"{target}.o", folder / f"{target}.so"
    object_file.write_bytes(code)
    subprocess.run(
        [linker, "-shared", "-Wl,--gc-sections", "-Wl,-z,defs", "-s",
         "-o", library, object_file, "-lm"],
        check=True,
    )  # fmt: skip
    object_file.unlink()
    return library


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="of TARGETS, or x86-64 for all of it"
    )
    arguments = parser.parse_args()
    compile_library(arguments.directory, chosen_targets(arguments.targets))
