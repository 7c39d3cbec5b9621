"""An index as a dictionary in plain Python; nothing here imports mr_dedup."""

from tests.oracles import hamming, signed


class Oracle:
    """Documents by id, in the order in which they were added last."""

    def __init__(self, named=True):
        self.named = named
        self.documents = {}

    def key(self, value, id):
        return id if self.named else str(signed(value))

    def add(self, values, ids=None):
        new = set()
        for value, id in zip(values, ids or [None] * len(values), strict=True):
            key = self.key(value, id)
            if key not in self.documents:
                new.add(key)
            elif not self.named:
                continue
            self.documents.pop(key, None)
            self.documents[key] = value
        return len(new)

    def remove(self, ids):
        stored = [id in self.documents for id in ids]
        for id in ids:
            self.documents.pop(id, None)
        return stored

    def matches(self, value, k, limit=None, without=None):
        """(id, fingerprint, distance) by distance, fingerprint, and age."""
        found = [
            (id, other, hamming(value, other))
            for id, other in self.documents.items()
            if hamming(value, other) <= k and id != without
        ]
        found.sort(key=lambda match: (match[2], match[1]))
        return found[:limit]

    def check_and_add(self, values, ids, k, limit, only_new):
        """For each its matches, and whether it was added."""
        answers = []
        for value, id in zip(values, ids or [None] * len(values), strict=True):
            found = self.matches(value, k, limit, without=id)
            stored = not self.named and str(signed(value)) in self.documents
            added = not (only_new and found) and not stored
            if added:
                self.add([value], None if ids is None else [id])
            answers.append((found, added))
        return answers
