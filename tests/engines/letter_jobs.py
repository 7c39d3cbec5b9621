"""Small jobs by which engines are tested."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from mr_dedup.errors import FormatError
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput


class LettersJob(Job, frozen=True, kw_only=True):
    """The letters of texts: each with the input and the offset at which it stands.

    With ``reduce_steps`` letters meet: first by themselves, then by whether they are vowels.
    """

    side_files = ("vowels",)

    reduce_steps: int = 0
    vowels: str | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        if not 0 <= self.reduce_steps <= 2:
            raise ValueError(f"reduce_steps must be from 0 to 2, not {self.reduce_steps}")

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield each letter under its code, or all under the number of the input."""
        text = part.path.read_text()
        if text == "damaged":
            raise FormatError(part.name, "byte 8", "is damaged")
        if text == "disk full":
            raise OSError(28, "No space left on device")
        if text == "memory":
            raise MemoryError
        if text == "bug":
            raise ZeroDivisionError("a bug")
        for offset, letter in enumerate(text):
            key = ord(letter) if self.reduce_steps else int(part.path.stem.rpartition("-")[2])
            table = pa.table({"letter": [letter], "from": [part.name], "offset": [offset]})
            yield key, table
            counters[f"offset_{offset}"] += 1
        counters["letters read"] += len(text)

    def reduces(self) -> Sequence[Reduce]:
        """Return as many steps as the options say."""
        return [self.join_letters, self.join_kinds][: self.reduce_steps]

    def join_letters(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield each letter with all that it was found at, under its code or its kind."""
        vowels = "aeiou" if self.vowels is None else Path(self.vowels).read_text()
        for key, tables in groups:
            table = pa.concat_tables(tables).sort_by(
                [("from", "ascending"), ("offset", "ascending")]
            )
            counters["letters joined"] += len(table)
            yield (key if self.reduce_steps == 1 else int(chr(key) in vowels)), table

    def join_kinds(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield how many letters there are of each kind."""
        for key, tables in groups:
            letters = pa.concat_tables(tables)["letter"].to_pylist()
            counters["kinds"] += 1
            counters[f"kind_{key}"] += 1
            yield key, pa.table({"letters": ["".join(sorted(letters))]})

    def lines(self, table: pa.Table) -> bytes:
        """Return a line a row."""
        return "".join(f"{row}\n" for row in table.to_pylist()).encode()


class HalvesJob(Job, frozen=True, kw_only=True):
    """The halves of numbers, each with how often it occurs: tables to tables."""

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the half of each number of stored tables under its last bit."""
        counters["parts"] += 1
        for _, table in part.keyed_tables():
            for number in table["n"].to_pylist():
                yield number // 2 % 2, pa.table({"n": [number // 2]})

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.collect]

    def collect(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the numbers of a key in one table, ascending."""
        for key, tables in groups:
            table = pa.concat_tables(tables).sort_by("n")
            counters["numbers"] += len(table)
            yield key, table
