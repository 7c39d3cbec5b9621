"""A model of what a disk may have after a loss of power, of a folder whose writer is this process.

What was forced (fsync, fdatasync) is there. Of what was not, each sector of 512 bytes is old or
new, a file is as long as it was, is or was about to be, and each name of the folder leads to the
file that it led to when the folder was last forced or to the one that it leads to now: in any
combination, as file systems promise no order.
"""

import os
import stat

SECTOR_BYTES = 512

_WATCHED = ("open", "pwrite", "write", "fsync", "fdatasync", "ftruncate", "replace", "unlink")


class Disk:
    """What was forced of a folder and what was not; ``moment`` is called around system calls."""

    def __init__(self, folder, monkeypatch, moment):
        self.folder = folder
        self._moment = moment
        self._watching = False
        # as long as one is open its number is not another file's
        self._handles = {}
        self._names = {}
        self._contents = {}
        self._real = {name: getattr(os, name) for name in _WATCHED}
        for name in _WATCHED:
            monkeypatch.setattr(os, name, self._watched(name))

    def start(self):
        """Take all that is there now as forced, and begin to call ``moment``."""
        self._names = self._listed()
        self._contents = {number: self._current(number) for number in self._names.values()}
        self._watching = True

    def close(self):
        self._watching = False
        for handle in self._handles.values():
            os.close(handle)

    def after_loss(self, rng, folder):
        """Write to ``folder`` what may be there after a loss of power now."""
        now = self._listed()
        folder.mkdir()
        for name in sorted({*now, *self._names}):
            number = rng.choice([now, self._names]).get(name)
            if number is not None:
                before = self._contents.get(number, b"")
                content = self._current(number)
                if before != content:
                    content = _mixed(rng, before, content)
                (folder / name).write_bytes(content)

    def _watched(self, name):
        def call(*arguments, **options):
            if not self._watching:
                return self._real[name](*arguments, **options)
            self._around()
            result = self._real[name](*arguments, **options)
            if name in ("fsync", "fdatasync"):
                self._forced(arguments[0])
            self._around()
            return result

        return call

    def _around(self):
        self._watching = False
        try:
            self._listed()
            self._moment(self)
        finally:
            self._watching = True

    def _forced(self, handle):
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            if status.st_ino == self.folder.stat().st_ino:
                self._names = self._listed()
                for number in self._handles.keys() - self._names.values():
                    os.close(self._handles.pop(number))
                    self._contents.pop(number, None)
        elif status.st_ino in self._handles:
            self._contents[status.st_ino] = self._current(status.st_ino)

    def _listed(self):
        """Return which file each name leads to, and keep these from being gone."""
        names = {entry.name: entry.inode() for entry in os.scandir(self.folder)}
        for name, number in names.items():
            if number not in self._handles:
                self._handles[number] = self._real["open"](self.folder / name, os.O_RDONLY)
        return names

    def _current(self, number):
        return _content(self._handles[number])


def _content(handle):
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _mixed(rng, before, content):
    """Return what is left of content that was not forced since it was ``before``."""
    how = rng.random()
    if how < 0.3:
        return before
    if how < 0.5:
        return content
    short, long = sorted([len(before), len(content)])
    mixed = bytearray(rng.choice([short, long, rng.randint(short, long)]))
    for start in range(0, len(mixed), SECTOR_BYTES):
        sector = rng.choice([before, content])[start : start + SECTOR_BYTES]
        sector = sector[: len(mixed) - start]
        mixed[start : start + len(sector)] = sector
    return bytes(mixed)
