# mypy: ignore-errors
"""Loops that look up the n-grams of documents among those of items, and extend what they find.

Nothing is validated here: item_index.py and matching.py do that, and allocate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int32, int64, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.kernels.entry import Matrix, entry, kernel
from mr_dedup.kernels.hash_table import find_slot
from mr_dedup.kernels.unsigned import FACTORS, U0, U1, U2, U6, U32, U63, U

MIN_GRAM, MAX_GRAM = 3, 5
"""Tokens of an n-gram that is looked up."""

ROW = ("document", "text", "start", "stop", "matched", "deleted", "inserted", "changed")
"""The columns of a match: tokens ``start`` to ``stop`` of a document are a text of the items.

``matched`` is the weight of the tokens of the text that are there. Of the others ``deleted`` are
missing and ``changed`` replaced; ``inserted`` tokens of the document are between those of the text.
"""

INSERTED, MORE_INSERTED = 24, 1
"""What an inserted token costs, as a weight, and what each further one beside it: text between two
parts of an item is one edit. A deleted token costs its own weight, of 16 to 64."""

MAX_RUN = 32
"""Inserted tokens, besides the edits, that are one run."""

MAX_BAND = 64
"""By how many tokens a document may be shifted against a text, from an n-gram that both have."""

_CHANGED = 12
"""What a token in place of another costs more than that it is missing: less than an inserted one,
so that a changed word is not a deleted and an inserted one."""

_FAR = 1 << 30
_NONE = 0xFFFFFFFF
_NOWHERE = -(1 << 40)


class ItemTable(NamedTuple):
    """The t texts of items, each of them distinct, and their n-grams.

    Attributes:
        word_keys: uint64[2**a], a hash table of the tokens of all texts, by their hashes.
        word_ids: uint32[2**a], their numbers from 1, 0 where a slot is free.
        word_weights: uint32[w + 1], the weights of tokens by number, 16 to 64.
        tokens: uint32[m], the tokens of all texts, as numbers.
        starts: uint64[t + 1], the first token of each text.
        hashes: uint64[t], polynomials of the tokens of each text.
        powers: uint64[t], what the hash of a prefix before it is to be multiplied by.
        totals: uint32[t], the sum of the weights of the tokens of each text.
        max_edits: uint32[t], the largest number of edits; 0 for texts of which only all counts.
        filter: uint64[2**b], a bit for each hashed n-gram; never a clear bit for one of the table.
        gram_keys: uint64[2**c], a hash table of n-grams, by their hashes.
        gram_rows: uint32[2**c], their rows in ``gram_starts`` plus 1, 0 where a slot is free.
        gram_starts: uint32[g + 1], the first occurrence of each n-gram in the next two arrays.
        gram_texts: uint32[p], texts that have it.
        gram_offsets: uint32[p], the token of the text with which it begins.
        gram_sizes: uint32[p], how many tokens it has.
    """

    word_keys: NDArray[np.uint64]
    word_ids: NDArray[np.uint32]
    word_weights: NDArray[np.uint32]
    tokens: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    powers: NDArray[np.uint64]
    totals: NDArray[np.uint32]
    max_edits: NDArray[np.uint32]
    filter: NDArray[np.uint64]
    gram_keys: NDArray[np.uint64]
    gram_rows: NDArray[np.uint32]
    gram_starts: NDArray[np.uint32]
    gram_texts: NDArray[np.uint32]
    gram_offsets: NDArray[np.uint32]
    gram_sizes: NDArray[np.uint32]


class Scratch(NamedTuple):
    """Space for a document of n tokens at most, and what is known of each text in it.

    Attributes:
        ids: uint32[n], the numbers of the document's tokens; 0 of those that no text has.
        prefixes: uint64[n + 1], the polynomial of the tokens before each.
        hit_places: uint32[3 n], the first token of each n-gram that is in the table.
        hit_rows: uint32[3 n], its row.
        stamp: uint64[1], a number of the document, another one whenever it is searched again.
        seen_in: uint64[t], the stamp of the document that the next four arrays are about.
        covered: uint32[t], where the last match of a text ends.
        tried: int64[t], the offset at which the text would begin that was compared last.
        first_rows: uint32[t], the first of its exact matches in a document that is not behind.
        last_rows: uint32[t], the last one.
        next_rows: uint32[r], the next match of the same text, for each row of matches.
        counts: uint32[w + 1], 0 between calls.
        cost, matched, last: int32[2 e + 1], of alignments, for e edits at most.
        edits: int64[2 e + 1], their numbers of deleted, inserted and changed tokens, 21 bits each.
    """

    ids: NDArray[np.uint32]
    prefixes: NDArray[np.uint64]
    hit_places: NDArray[np.uint32]
    hit_rows: NDArray[np.uint32]
    stamp: NDArray[np.uint64]
    seen_in: NDArray[np.uint64]
    covered: NDArray[np.uint32]
    tried: NDArray[np.int64]
    first_rows: NDArray[np.uint32]
    last_rows: NDArray[np.uint32]
    next_rows: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    cost: NDArray[np.int32]
    matched: NDArray[np.int32]
    last: NDArray[np.int32]
    edits: NDArray[np.int64]


class Documents(NamedTuple):
    """The tokens of d documents.

    Attributes:
        hashes: uint64[m], of tokens.
        edges: int64[d + 1], the first token of each document.
    """

    hashes: NDArray[np.uint64]
    edges: NDArray[np.int64]


@kernel(inline="always")
def _extended(key, id):
    """Return the hash of an n-gram with one more token."""
    key = (key ^ id) * FACTORS[0]
    return key ^ (key >> U32)


@entry
def gram_hashes(tokens: NDArray[np.uint32], size: np.uint64, out: NDArray[np.uint64]) -> None:
    """Write the hashes of all n-grams of ``size`` tokens to ``out``, uint64[m - size + 1]."""
    for i in range(out.size):
        key = U0
        for k in range(size):
            key = _extended(key, uint64(tokens[uint64(i) + uint64(k)]))
        out[i] = key


@entry
def text_hashes(
    tokens: NDArray[np.uint32],
    starts: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    powers: NDArray[np.uint64],
) -> None:
    """Write the polynomial of the tokens of each text, and the power of its length."""
    for text in range(hashes.size):
        hashes[text] = U0
        powers[text] = U1
        for i in range(starts[text], starts[text + 1]):
            hashes[text] = hashes[text] * FACTORS[1] + uint64(tokens[i])
            powers[text] *= FACTORS[1]


@entry
def fill_filter(hashes: NDArray[np.uint64], filter: NDArray[np.uint64]) -> None:
    """Set the bit of each n-gram."""
    last = (uint64(filter.size) << U6) - U1
    for key in hashes:
        bit = (key >> U32) & last
        filter[bit >> U6] |= U1 << (bit & U63)


@entry
def fill_rows(
    hashes: NDArray[np.uint64], keys: NDArray[np.uint64], rows: NDArray[np.uint32]
) -> None:
    """Insert distinct hashes into a hash table, each with its index plus 1."""
    for i in range(hashes.size):
        slot = find_slot(keys, rows, hashes[i])
        keys[slot] = hashes[i]
        rows[slot] = uint32(i + 1)


@entry
def find_matches(
    table: ItemTable,
    documents: Documents,
    first: np.uint64,
    min_share: np.uint64,
    max_work: np.uint64,
    scratch: Scratch,
    out: Matrix[np.uint32],
) -> tuple[int, int, int]:
    """Write the matches of documents from ``first`` on to ``out``, uint32[r, 8], as ROW has them.

    Of a document first the exact ones, ascending by their ends, then the others, in the order of
    the n-grams by which they were found. Matches of one text do not overlap.

    Args:
        table: The texts of items.
        documents: What is searched.
        first: The first document.
        min_share: The smallest share of a text's weight that matches, in thousandths.
        max_work: Steps for inexact matches of a document, for each of its tokens and 1,000 more.
        scratch: Space.
        out: Where to write.

    Returns:
        The document to go on with, whose matches had no room any more, or the number of
        documents; how many rows are written; and of how many documents not all n-grams were
        extended, since that takes more than ``max_work``.
    """
    count = U0
    stopped = U0
    for document in range(first, uint64(documents.edges.size) - U1):
        begin, end = documents.edges[document], documents.edges[document + U1]
        hashes = documents.hashes[begin:end]
        scratch.stamp[0] += U1
        hits = _hits_of(table, hashes, scratch)
        before = count
        count = _find_exact(table, uint64(document), uint64(hashes.size), hits, count, scratch, out)
        is_whole = True
        if count <= uint64(out.shape[0]):
            budget = max_work * (uint64(hashes.size) + U(1000))
            count, is_whole = _find_near(
                table,
                uint64(document),
                uint64(hashes.size),
                hits,
                count,
                min_share,
                budget,
                scratch,
                out,
            )
        if count > uint64(out.shape[0]):
            return document, before, stopped
        stopped += uint64(not is_whole)
    return uint64(documents.edges.size) - U1, count, stopped


@kernel
def _hits_of(table, hashes, scratch):
    """Write the n-grams of a document that are in the table; return their number."""
    word_keys, word_ids, filter, keys, rows = (
        table.word_keys, table.word_ids, table.filter, table.gram_keys, table.gram_rows
    )  # fmt: skip
    ids = scratch.ids
    size = uint64(hashes.size)
    for i in range(size):
        ids[i] = word_ids[find_slot(word_keys, word_ids, hashes[i])]
    last = (uint64(filter.size) << U6) - U1
    hits = U0
    for i in range(size):
        key = U0
        for k in range(U(MAX_GRAM)):
            at = uint64(i) + uint64(k)
            if at >= size or ids[at] == uint32(0):
                break
            key = _extended(key, uint64(ids[at]))
            if uint64(k) + U1 < U(MIN_GRAM):
                continue
            bit = (key >> U32) & last
            if (filter[bit >> U6] >> (bit & U63)) & U1 == U0:
                continue
            row = rows[find_slot(keys, rows, key)]
            if row:
                scratch.hit_places[hits] = uint32(i)
                scratch.hit_rows[hits] = row - uint32(1)
                hits += U1
    return hits


@kernel(inline="always")
def _begin(scratch, text):
    """Forget what is known of a text in the document before."""
    if scratch.seen_in[text] != scratch.stamp[0]:
        scratch.seen_in[text] = scratch.stamp[0]
        scratch.covered[text] = uint32(0)
        scratch.tried[text] = int64(_NOWHERE)
        scratch.first_rows[text] = uint32(_NONE)
        scratch.last_rows[text] = uint32(_NONE)


@kernel
def _find_exact(table, document, size, hits, count, scratch, out):
    """Write where a document has whole texts; return the number of rows, or more than there are.

    The first occurrence, then those that begin after it. Where hashes of the text and of the tokens
    there are equal, these are compared, so that a text of which a document has many beginnings
    takes a step for each.
    """
    ids, tokens, prefixes = scratch.ids, table.tokens, scratch.prefixes
    if hits != U0:
        prefixes[0] = U0
        for i in range(size):
            prefixes[uint64(i) + U1] = prefixes[i] * FACTORS[1] + uint64(ids[i])
    for hit in range(hits):
        place, row = int64(scratch.hit_places[hit]), uint64(scratch.hit_rows[hit])
        for which in range(table.gram_starts[row], table.gram_starts[row + U1]):
            text = uint64(table.gram_texts[which])
            begin = place - int64(table.gram_offsets[which])
            length = table.starts[text + U1] - table.starts[text]
            if begin < 0 or uint64(begin) + length > size:
                continue
            _begin(scratch, text)
            if begin < int64(scratch.covered[text]) or begin == scratch.tried[text]:
                continue
            scratch.tried[text] = begin
            before = prefixes[begin] * table.powers[text]
            if prefixes[uint64(begin) + length] - before != table.hashes[text]:
                continue
            i = U0
            while i < length and ids[uint64(begin) + i] == tokens[table.starts[text] + i]:
                i += U1
            if i < length:
                continue
            if count == uint64(out.shape[0]):
                return count + U1
            scratch.covered[text] = uint32(uint64(begin) + length)
            if scratch.last_rows[text] == uint32(_NONE):
                scratch.first_rows[text] = uint32(count)
            else:
                scratch.next_rows[scratch.last_rows[text]] = uint32(count)
            scratch.last_rows[text] = uint32(count)
            scratch.next_rows[count] = uint32(_NONE)
            out[count, 0] = uint32(document)
            out[count, 1] = uint32(text)
            out[count, 2] = uint32(begin)
            out[count, 3] = uint32(uint64(begin) + length)
            out[count, 4] = table.totals[text]
            out[count, 5:] = uint32(0)
            count += U1
    return count


@kernel
def _find_near(table, document, size, hits, count, min_share, budget, scratch, out):
    """Write where a document has most of a text; return the number of rows as ``_find_exact``.

    And whether that took no more than ``budget`` steps.
    """
    ids, tokens = scratch.ids, table.tokens
    # what the exact ones cover is known by their rows
    for hit in range(hits):
        row = uint64(scratch.hit_rows[hit])
        for which in range(table.gram_starts[row], table.gram_starts[row + U1]):
            text = uint64(table.gram_texts[which])
            _begin(scratch, text)
            scratch.covered[text] = uint32(0)
            scratch.tried[text] = int64(_NOWHERE)
    work = U0
    for hit in range(hits):
        place, row = uint64(scratch.hit_places[hit]), uint64(scratch.hit_rows[hit])
        for which in range(table.gram_starts[row], table.gram_starts[row + U1]):
            text = uint64(table.gram_texts[which])
            edits = uint64(table.max_edits[text])
            work += U1
            if edits == U0 or place < uint64(scratch.covered[text]):
                continue
            offset = uint64(table.gram_offsets[which])
            begin = int64(place) - int64(offset)
            if begin == scratch.tried[text]:
                continue
            # rows of exact matches that end before here are not looked at again
            exact = scratch.first_rows[text]
            while exact != uint32(_NONE) and uint64(out[exact, 3]) <= place:
                scratch.covered[text] = max(scratch.covered[text], out[exact, 3])
                exact = scratch.next_rows[exact]
                work += U1
            scratch.first_rows[text] = exact
            limit = size
            if exact != uint32(_NONE):
                if uint64(out[exact, 2]) <= place:
                    continue
                limit = uint64(out[exact, 2])
            scratch.tried[text] = begin
            if work > budget:
                return count, False
            start, length = table.starts[text], table.starts[text + U1] - table.starts[text]
            seed = uint64(table.gram_sizes[which])
            is_seed = place + seed <= limit
            for k in range(seed):
                if is_seed and ids[place + uint64(k)] != tokens[start + offset + uint64(k)]:
                    is_seed = False
            if not is_seed:
                continue
            low = uint64(scratch.covered[text])
            band = min(edits + U(MAX_RUN), U(MAX_BAND))
            first = place - min(place - low, offset + band)
            stop = min(limit, place + length - offset + band)
            total = uint64(table.totals[text])
            needed = (total * min_share + U(999)) // U(1000)
            work += length + stop - first
            if _shared(table, text, ids, first, stop, scratch.counts) < needed:
                continue
            work += length * (U2 * band + U1)
            matched = U0
            for k in range(seed):
                matched += uint64(table.word_weights[ids[place + uint64(k)]])
            limits = (band, total - needed + U(INSERTED) * edits)
            after = place + seed
            right = _extend(
                table,
                ids,
                (start + offset + seed, length - offset - seed),
                (after, stop - after),
                False,
                limits,
                scratch,
            )
            left = _extend(
                table, ids, (start, offset), (first, place - first), True, limits, scratch
            )
            matched += uint64(right[0] + left[0])
            deleted, runs, changed = right[2] + left[2], right[3] + left[3], right[4] + left[4]
            if matched < needed or uint64(deleted + runs + changed) > edits:
                continue
            # alignments end with tokens that match
            inserted = int64(seed) + right[1] + left[1] + deleted - int64(length)
            if count == uint64(out.shape[0]):
                return count + U1, True
            out[count, 0] = uint32(document)
            out[count, 1] = uint32(text)
            out[count, 2] = uint32(place - uint64(left[1]))
            out[count, 3] = uint32(place + seed + uint64(right[1]))
            out[count, 4] = uint32(matched)
            out[count, 5] = uint32(deleted)
            out[count, 6] = uint32(inserted)
            out[count, 7] = uint32(changed)
            scratch.covered[text] = out[count, 3]
            count += U1
    return count, True


@kernel
def _shared(table, text, ids, first, stop, counts):
    """Return the weight of the tokens that a text shares with tokens of a document, in any order.

    An upper bound of what an alignment matches.
    """
    tokens, start, end = table.tokens, table.starts[text], table.starts[text + U1]
    for i in range(start, end):
        counts[tokens[i]] += uint32(1)
    shared = U0
    for i in range(first, stop):
        id = ids[i]
        if counts[id]:
            counts[id] -= uint32(1)
            shared += uint64(table.word_weights[id])
    for i in range(start, end):
        counts[tokens[i]] = uint32(0)
    return shared


@kernel
def _extend(table, ids, text_piece, piece, is_left, limits, scratch):
    """Align what is left of a text with the beginning of what follows in a document.

    The alignment of the least cost: missing and changed tokens cost their weight, inserted ones
    INSERTED, or MORE_INSERTED beside another. The text may end anywhere, its other tokens are then
    missing.

    Args:
        table: Of ``ItemTable``.
        ids: The tokens of the document.
        text_piece: The first token of the text, and how many there are.
        piece: The same of the document.
        is_left: Whether both are read backwards, from their ends.
        limits: By how many tokens text and document may be shifted, and a cost above which no
            alignment is of use.
        scratch: Space.

    Returns:
        The matched weight, the tokens of the document up to the last one that matches, how many
        tokens are deleted, how many runs inserted, and how many tokens changed.
    """
    cost, matched, last, edits = scratch.cost, scratch.matched, scratch.last, scratch.edits
    text_start, text_size = int64(text_piece[0]), int64(text_piece[1])
    start, size = int64(piece[0]), int64(piece[1])
    band, max_cost = int64(limits[0]), int64(limits[1])
    deleted_one, inserted_one, changed_one = int64(1) << 42, int64(1) << 21, int64(1)
    rest = int64(0)
    for x in range(text_size):
        rest += int64(table.word_weights[table.tokens[text_start + x]])
    width = 2 * band + 1
    for b in range(width):
        y = b - band
        cost[b] = int32(_FAR)
        if 0 <= y <= size:
            cost[b] = int32(INSERTED + (y - 1) * MORE_INSERTED if y else 0)
            edits[b] = inserted_one * min(y, 1)
        matched[b] = int32(0)
        last[b] = int32(0)
    best_cost, best_matched, best_last, best_edits = (
        rest,
        int64(0),
        int64(0),
        deleted_one * text_size,
    )
    for x in range(1, text_size + 1):
        token = table.tokens[text_start + (text_size - x if is_left else x - 1)]
        weight = int64(table.word_weights[token])
        rest -= weight
        lowest = int64(_FAR)
        # of an alignment that ends with an inserted token
        run_cost, run_matched, run_last, run_edits = int64(_FAR), int32(0), int32(0), int64(0)
        for b in range(width):
            y = x + b - band
            if y < 0 or y > size:
                cost[b] = int32(_FAR)
                continue
            # cost[b] is of x - 1 and y - 1, cost[b + 1] of x - 1 and y, cost[b - 1] of x and y - 1
            least = int64(_FAR)
            if y > 0 and cost[b] < _FAR:
                if ids[start + (size - y if is_left else y - 1)] == token:
                    least = int64(cost[b])
                    matched[b] += int32(weight)
                    last[b] = int32(y)
                else:
                    least = int64(cost[b]) + weight + _CHANGED
                    edits[b] += changed_one
            if b + 1 < width and int64(cost[b + 1]) + weight < least:
                least = int64(cost[b + 1]) + weight
                matched[b], last[b] = matched[b + 1], last[b + 1]
                edits[b] = edits[b + 1] + deleted_one
            run_cost += MORE_INSERTED
            if b > 0 and int64(cost[b - 1]) + INSERTED < run_cost:
                run_cost = int64(cost[b - 1]) + INSERTED
                run_matched, run_last = matched[b - 1], last[b - 1]
                run_edits = edits[b - 1] + inserted_one
            if run_cost < least:
                least = run_cost
                matched[b], last[b], edits[b] = run_matched, run_last, run_edits
            cost[b] = int32(min(least, int64(_FAR)))
            lowest = min(lowest, least)
            if least + rest < best_cost:
                best_cost = least + rest
                best_matched, best_last = int64(matched[b]), int64(last[b])
                best_edits = edits[b] + deleted_one * (text_size - x)
        if lowest > max_cost or lowest >= best_cost:
            break
    mask = (int64(1) << 21) - 1
    return best_matched, best_last, best_edits >> 42, best_edits >> 21 & mask, best_edits & mask
