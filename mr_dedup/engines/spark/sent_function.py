"""What Spark pickles by value: it finds this package on an executor, then calls what is there."""

import os
import pickle
import sys

# no import of this package: it cannot be found before the function has run


def call(folder, pickled, batches):  # type: ignore[no-untyped-def]
    """Call a function with batches; this package is in a directory that Spark has unpacked."""
    from pyspark import SparkFiles

    path = os.path.join(SparkFiles.getRootDirectory(), folder)  # noqa: PTH118
    if os.path.isdir(path) and path not in sys.path:  # noqa: PTH112
        sys.path.insert(0, path)
    yield from pickle.loads(pickled)(batches)
