"""Slow, obvious answers: where lists of words are in others, and what an alignment costs."""


def occurrences(document, text):
    """Where a list of words is in another one: from the left, without overlaps."""
    found, at = [], 0
    while at + len(text) <= len(document):
        if document[at : at + len(text)] == text:
            found.append(at)
            at += len(text)
        else:
            at += 1
    return found


def alignment_cost(text, document, weights, inserted, more_inserted, changed):
    """The least cost of turning a text into a part of a document, by a table of all prefixes.

    Any number of words of the document in a row are one insertion.
    """

    def with_insertions(row):
        return [
            min([row[y]] + [
                row[z] + inserted + more_inserted * (y - z - 1) for z in range(y)
            ])
            for y in range(len(row))
        ]  # fmt: skip

    row = with_insertions([0, *[float("inf")] * len(document)])
    for word in text:
        above, row = row, [row[0] + weights[word]]
        for y, other in enumerate(document, 1):
            here = above[y - 1] + (0 if word == other else weights[word] + changed)
            row.append(min(here, above[y] + weights[word]))
        row = with_insertions(row)
    return row[-1]
