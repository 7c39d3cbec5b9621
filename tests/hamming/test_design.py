"""Table designs against the paper's numbers and their guarantee, checked by enumeration."""

import itertools

import numpy as np
import pytest

from mr_dedup.hamming.design import TableDesign, cut, designs_for, mask_of
from mr_dedup.hamming.kernels import bucket_of
from mr_dedup.kernels.compiler import jit

# Example 3.1 of the paper: designs for 64 bits and k = 3, with their p_i
PAPER = [
    (TableDesign.choose(3, 3), 20, {31, 32, 33}),
    (TableDesign.nested(3), 16, {28}),
    (TableDesign.choose(3, 2), 10, {25, 26}),
    (TableDesign.choose(3, 1), 4, {16}),
]

bucket = jit(bucket_of)


@pytest.mark.parametrize(("design", "tables", "widths"), PAPER)
def test_paper_designs_have_the_papers_tables_and_key_widths(design, tables, widths):
    assert len(design.masks) == tables
    assert set(design.key_widths) == widths


@pytest.mark.parametrize("design", [row[0] for row in PAPER])
def test_every_pattern_of_three_bits_leaves_a_key_of_the_paper_designs_untouched(design):
    masks = design.masks
    for bits in itertools.combinations(range(64), 3):
        flipped = sum(1 << bit for bit in bits)
        assert any(mask & flipped == 0 for mask in masks), bits


@pytest.mark.parametrize(("chosen", "tables", "widths"), [(2, 6, {21, 22}), (3, 8, {24})])
def test_two_groups_fill_the_gap_between_the_papers_4_and_10_tables(chosen, tables, widths):
    design = TableDesign.grouped(3, 2, chosen)
    assert len(design.masks) == tables
    assert set(design.key_widths) == widths
    for bits in itertools.combinations(range(64), 3):
        flipped = sum(1 << bit for bit in bits)
        assert any(mask & flipped == 0 for mask in design.masks), bits
    assert design.name in designs_for(3)


@pytest.mark.parametrize("k", range(0, 7))
def test_no_k_bits_spoil_every_table(k):
    """Which bits spoil a table depends only on the masks they lie in: one bit for each such set."""
    for design in designs_for(k).values():
        kinds = {tuple(mask >> bit & 1 for mask in design.masks): bit for bit in range(64)}
        spoiled = [sum(1 << number for number, hit in enumerate(kind) if hit) for kind in kinds]
        everything = (1 << len(design.masks)) - 1
        # fewer bits spoil a subset of what k bits do, and a bit may stand for many of its kind
        for chosen in itertools.combinations(spoiled, min(k, len(spoiled))):
            union = 0
            for tables in chosen:
                union |= tables
            assert union != everything, (design.name, k)


@pytest.mark.parametrize("k", [0, 1, 3, 6, 10, 31, 63])
def test_designs_are_ordered_and_within_64_bits(k):
    designs = list(designs_for(k).values())
    assert [len(d.masks) for d in designs] == sorted(len(d.masks) for d in designs)
    assert all(design.k == k for design in designs)
    assert all(0 <= width <= 64 for design in designs for width in design.key_widths)


def test_permutation_puts_the_key_first_and_keeps_every_bit():
    for design in designs_for(3).values():
        for table, mask in enumerate(design.masks):
            order = design.permutation(table)
            assert sorted(order) == list(range(64))
            width = design.key_widths[table]
            assert sum(1 << bit for bit in order[:width]) == mask


def test_cut_is_a_partition_with_longer_runs_first():
    parts = cut(range(64), 5)
    assert [len(part) for part in parts] == [13, 13, 13, 13, 12]
    assert sorted(itertools.chain.from_iterable(parts)) == list(range(64))
    assert parts[0][0] == 63


def test_mask_of_sets_just_those_bits():
    assert mask_of([0, 5, 63]) == 1 | 1 << 5 | 1 << 63


@pytest.mark.parametrize("bits", [1, 8, 16, 20])
def test_hashing_spreads_uniform_keys_evenly(bits):
    """A probe sees on average n / buckets + 1 of n random fingerprints in its bucket.

    Keys that are hashed, not moved, collide as often again as there are too few of them.
    """
    fingerprints = np.random.default_rng(7).integers(0, 2**64, 1 << 18, dtype=np.uint64)
    for k in (0, 1, 3, 6):
        for design in designs_for(k).values():
            seen, ideal = [], []
            for table, width in enumerate(design.key_widths):
                if width == 0:
                    continue
                hashing = design.hashing(table, bits)
                used = min(bits, width)
                assert hashing.bits == used
                sizes = np.bincount(hashing.buckets(fingerprints)).astype(float)
                seen.append((sizes**2).sum() / fingerprints.size)
                run = f"{design.masks[table]:b}".strip("0")
                colliding = 0.0 if set(run) == {"1"} else 2.0**-width
                ideal.append(fingerprints.size * (2.0**-used + colliding) + 1)
            # what a search pays is the sum; two rounds of hashing leave a few keys a lattice
            assert sum(seen) <= 1.1 * sum(ideal), design.name
            assert all(s < 2 * i for s, i in zip(seen, ideal, strict=True)), design.name


def test_misuse_is_named():
    with pytest.raises(ValueError, match=r"k must be from 0 to 64, not 65"):
        TableDesign("x", 65, (0,))
    with pytest.raises(ValueError, match="no tables"):
        TableDesign("x", 1, ())
    with pytest.raises(ValueError, match="64-bit"):
        TableDesign("x", 1, (1 << 64,))
    with pytest.raises(ValueError, match="chosen must be at least 1"):
        TableDesign.choose(3, 0)
    with pytest.raises(ValueError, match="k must be"):
        TableDesign.choose(64, 1)
    with pytest.raises(ValueError, match="groups must be from 2 to k = 3, not 4"):
        TableDesign.grouped(3, 4, 1)
    with pytest.raises(ValueError, match="chosen must be from 1 to 31, not 32"):
        TableDesign.grouped(3, 2, 32)
    with pytest.raises(ValueError, match="nested"):
        TableDesign.nested(0)


@pytest.mark.parametrize("directory_bits", [1, 5, 16, 24])
@pytest.mark.parametrize("leading", [1, 4, 12])
def test_digits_of_a_bucket_are_its_bits(directory_bits, leading):
    """Leading digits and those after them put together are the bucket by as many bits."""
    values = np.random.default_rng(1).integers(0, 2**64, 500, dtype=np.uint64)
    for design in designs_for(3).values():
        for table, width in enumerate(design.key_widths):
            hashing = design.hashing(table, directory_bits)
            assert hashing.bits == max(1, min(directory_bits, width))
            both = buckets(values, hashing.digits(0, leading + 3))
            head = buckets(values, hashing.digits(0, leading))
            tail = buckets(values, hashing.digits(leading, 3))
            assert (both == head << np.uint64(3) | tail).all()
            assert (buckets(values, hashing.digits(0, hashing.bits))
                    == buckets(values, hashing)).all()  # fmt: skip


def buckets(values, hashing):
    found = hashing.buckets(values)
    assert [bucket(x, hashing) for x in values] == found.tolist()
    return found
