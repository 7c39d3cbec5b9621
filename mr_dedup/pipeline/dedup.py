"""De-duplicate documents: fingerprints, pairs, clusters, decisions, and what is kept of them.

Each stage is a job over the documents or a computation over their fingerprints, and leaves files:

columns      columns.arrow      the columns of kept documents, if these become rows of Parquet
fingerprint  rows.parquet       a row a document: chunk, id, fingerprint, length; rejects/
             signatures.arrow   a row a document, if there are methods by keys
cluster      labels.parquet     the fingerprints that several documents or their neighbours have
earlier      earlier-….parquet  texts of documents that earlier runs kept, in clusters with new ones
resolve      kept.parquet       which are kept; decisions/, clusters/; samples.json
keep         documents/         the kept documents; fingerprints/ and signatures/, for later runs;
                                shown.json, texts of the samples

Documents that earlier runs kept are in rows.parquet as well, before all others, so that numbers of
documents and clusters of fingerprints are those of both; they stay kept, and are not written again.
"""

from __future__ import annotations

from typing import cast

from mr_dedup.engines.process import release_memory
from mr_dedup.pipeline.dedup_stages.cluster import cluster
from mr_dedup.pipeline.dedup_stages.columns import find_columns
from mr_dedup.pipeline.dedup_stages.contract import DedupOptions, RunJob, Stage
from mr_dedup.pipeline.dedup_stages.earlier import find_earlier_texts
from mr_dedup.pipeline.dedup_stages.files import RESULT
from mr_dedup.pipeline.dedup_stages.fingerprint import fingerprint_documents
from mr_dedup.pipeline.dedup_stages.keep import keep
from mr_dedup.pipeline.dedup_stages.resolve import resolve
from mr_dedup.pipeline.stages import Stages
from mr_dedup.pipeline.summary import StageSummary

STAGES: dict[str, Stage] = {
    "columns": find_columns,
    "fingerprint": fingerprint_documents,
    "cluster": cluster,
    "earlier": find_earlier_texts,
    "resolve": resolve,
    "keep": keep,
}
"""In their order."""


def stages_of(options: DedupOptions) -> list[str]:
    """Return the names of the stages of a run, in their order."""
    needed = {"columns": options.documents == "parquet", "earlier": bool(options.against)}
    return [name for name in STAGES if needed.get(name, True)]


def dedup(stages: Stages, options: DedupOptions, run_job: RunJob) -> StageSummary:
    """Run the stages that are not done yet; return a summary of all.

    In memory, in one process: 200 to 350 bytes a document, earlier ones too, of one to three
    million of a few words; before that what ``cluster_documents`` takes.
    """
    folder = stages.folder
    (folder / RESULT).mkdir(exist_ok=True)
    for unfinished in (folder / RESULT).glob(".*"):
        # files that a killed run was writing, which would become part of the result
        unfinished.unlink()
    for name in stages_of(options):
        if not stages.is_done(name):
            completed = STAGES[name](folder, options, run_job)
            stages.finish(name, completed.files, completed.counts)
            release_memory()
    summary = {
        **stages.values("fingerprint"),
        **stages.values("cluster"),
        **stages.values("resolve"),
        "expected_recalls": [
            {"method": name, "recall": recall} for name, recall in options.expected_recalls.items()
        ],
    }
    return cast("StageSummary", summary)
