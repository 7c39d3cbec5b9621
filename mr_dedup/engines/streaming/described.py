"""Inputs of a cluster's tasks that are descriptions: they are sent as lines of the manifest.

A description is a small file of JSON of what a task reads elsewhere, such as a range of a file.
One task reads several of them, one after the other, as it takes seconds to start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mr_dedup.engines.inputs import Input
from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX
from mr_dedup.formats.shards import SHARDS_SUFFIX
from mr_dedup.storage.descriptions import REMOTE_SUFFIX

TASK_BYTES = 1 << 30
"""About how many bytes of documents a task reads: in 20 seconds, where it takes three to start."""

DESCRIBED = "described://"
"""What the URIs of groups of descriptions begin with, which are nowhere."""

_SUFFIXES = (DESCRIPTION_SUFFIX, SHARDS_SUFFIX, REMOTE_SUFFIX)


class DescribedInput(NamedTuple):
    """An input of a task: its number, the user's name of it, its file's ending and content."""

    number: int
    name: str
    ending: str
    content: str


@dataclass(frozen=True)
class DescribedGroup:
    """The inputs of one task.

    Attributes:
        inputs: Their descriptions.
    """

    inputs: Sequence[DescribedInput]

    @property
    def uri(self) -> str:
        """What stands for the group where inputs have URIs."""
        return f"{DESCRIBED}{self.inputs[0].number:06}"

    def encode(self) -> str:
        """Return the group as JSON without tabs and line ends, for ``decode``."""
        return json.dumps(self.inputs)

    @classmethod
    def decode(cls, text: bytes) -> DescribedGroup:
        """Return what ``encode`` encoded."""
        return cls([DescribedInput(*fields) for fields in json.loads(text)])


def is_described(item: Input) -> bool:
    """Return whether an input is a file of this machine that describes what a task reads."""
    return not item.is_remote and item.location.endswith(_SUFFIXES)


def grouped(inputs: Sequence[Input]) -> Iterator[DescribedGroup]:
    """Yield the descriptions among the inputs of a job, in groups of consecutive ones.

    A group has up to TASK_BYTES; an input of unknown cost is by itself.
    """
    group: list[DescribedInput] = []
    total = 0
    for number, item in enumerate(inputs):
        if not is_described(item):
            continue
        if group and (not item.cost_bytes or total + item.cost_bytes > TASK_BYTES):
            yield DescribedGroup(group)
            group, total = [], 0
        path = Path(item.location)
        ending = next(suffix for suffix in _SUFFIXES if path.name.endswith(suffix))
        group.append(DescribedInput(number, item.name, ending, path.read_text("utf-8")))
        total += item.cost_bytes or TASK_BYTES
    if group:
        yield DescribedGroup(group)
