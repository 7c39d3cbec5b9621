"""Make sure that the compiled kernels are there, and print where.

Wheels contain them for processors from x86-64-v2 on and for aarch64, and this only loads them. A
checkout compiles them at first use, which takes about 40 s: run this while an image or a node is
prepared.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``: there are none."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.kernels.library import load_kernels

    print(load_kernels().path)
    return 0
