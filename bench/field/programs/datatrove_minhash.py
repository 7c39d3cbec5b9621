"""De-duplicate Parquet files with datatrove's four stages, as in its example, on this machine."""

import argparse
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import (
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
)
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers.jsonl import JsonlWriter
from datatrove.utils.hashing import HashConfig

parser = argparse.ArgumentParser()
parser.add_argument("corpus")
parser.add_argument("kept", type=Path)
parser.add_argument("--shingle", type=int, default=5, help="words in a shingle")
parser.add_argument("--workers", type=int, default=2)
options = parser.parse_args()

config = MinhashConfig(
    n_grams=options.shingle,
    num_buckets=14,
    hashes_per_bucket=8,
    hash_config=HashConfig(precision=64),
)
work = options.kept.parent
reader = ParquetReader(options.corpus)
tasks = len(list(Path(options.corpus).glob("*.parquet")))


def executor(name, pipeline, tasks, depends=None):
    logs = str(work / "logs" / name)
    return LocalPipelineExecutor(
        pipeline, tasks=tasks, workers=options.workers, logging_dir=logs, depends=depends
    )


if __name__ == "__main__":
    signatures, buckets, remove = (str(work / name) for name in ("signatures", "buckets", "remove"))
    first = executor("1", [reader, MinhashDedupSignature(signatures, config)], tasks)
    find = MinhashDedupBuckets(signatures, buckets, config=config)
    second = executor("2", [find], config.num_buckets, first)
    third = executor("3", [MinhashDedupCluster(buckets, remove, config=config)], 1, second)
    keep = [reader, MinhashDedupFilter(remove), JsonlWriter(str(options.kept))]
    executor("4", keep, tasks, third).run()
