"""``python -m tests.engines.spark.all_by_tasks …``: mr-dedup whose tasks read all shards."""

from mr_dedup.cli import dedup_jobs
from mr_dedup.cli.main import command

if __name__ == "__main__":
    dedup_jobs.SMALL_BYTES.clear()
    command()
