"""Run mr-dedup with a terminal as its standard error."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios


def on_terminal(*arguments, **environment):
    """Run a command; return its exit code and what it prints on the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))  # 24 lines of 80
    done = subprocess.run(
        [sys.executable, "-m", "mr_dedup", *map(str, arguments)],
        stdout=subprocess.DEVNULL, stderr=theirs, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    os.close(theirs)
    printed = b""
    # a terminal without writers ends in an error
    with contextlib.suppress(OSError):
        while part := os.read(ours, 1 << 16):
            printed += part
    os.close(ours)
    return done.returncode, printed.decode()
