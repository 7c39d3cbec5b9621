"""De-duplicate documents by stages whose tasks write shards, and the result itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from mr_dedup.errors import MrDedupError
from mr_dedup.files.outputs import whole_file
from mr_dedup.jobs.document_parts import DOCUMENTS_FOLDER
from mr_dedup.pipeline import dedup_stages
from mr_dedup.pipeline.dedup_options import DedupOptions
from mr_dedup.pipeline.report_parts import ReportParts
from mr_dedup.pipeline.sharded_run import ShardedRun, files_in
from mr_dedup.pipeline.stages import RESULT, Stages
from mr_dedup.pipeline.summary import StageSummary
from mr_dedup.storage.uris import without_secrets

_KEPT = "kept.json"

STAGES = ("columns", "fingerprint", "cluster", "resolve", "keep")
"""In their order."""

_FOLDERS = {"fingerprint": "rows", "cluster": "attached", "resolve": "decided"}
"""The directories of shards that stages leave."""


def stages_of(options: DedupOptions) -> Sequence[str]:
    """Return the names of the stages of a run, in their order."""
    return STAGES if options.documents == "parquet" else STAGES[1:]


class Deduplicated(NamedTuple):
    """A result of which only report and summary are missing.

    Attributes:
        summary: What the stages count.
        checksums: Of the datasets that later runs read, by their names.
        report: What a report shows.
    """

    summary: StageSummary
    checksums: dict[str, str]
    report: ReportParts


def _written(run: ShardedRun) -> dict[str, int | None]:
    """Return the files that tasks have written of the result, with their sizes."""
    files = files_in(run.at(RESULT))
    # which this command adds
    return {name: size for name, size in files.items() if "/" in name}


def dedup(stages: Stages, options: DedupOptions, run: ShardedRun) -> Deduplicated:
    """Run the stages that are not done yet.

    In memory: some 200 bytes for each chunk of documents, and nothing for a document.
    """
    with run.open_engine("size") as (engine, _):
        plan = dedup_stages.Plan(run, options, engine.tasks)

    def is_done(stage: str) -> bool:
        if not stages.is_done(stage):
            return False
        if stage == "keep":
            content = json.loads((run.records / _KEPT).read_bytes())
            return bool(_written(run) == content["files"])
        return stage not in _FOLDERS or run.is_whole(_FOLDERS[stage])

    if options.documents == "parquet" and not is_done("columns"):
        dedup_stages.columns(plan)
        stages.finish("columns", [dedup_stages.COLUMNS], {})
    if not is_done("fingerprint"):
        left, counts = dedup_stages.fingerprint(plan)
        stages.finish("fingerprint", run.record("rows", left), counts)
    rows = run.recorded("rows")
    if not is_done("cluster"):
        left, counts = dedup_stages.cluster(plan, rows)
        stages.finish("cluster", run.record("attached", left), counts)
    attached = run.recorded("attached")
    if not is_done("resolve"):
        left, counts = dedup_stages.resolve(plan, rows, attached)
        stages.finish("resolve", run.record("decided", left), counts)
    decided = run.recorded("decided")
    report = ReportParts.read(
        run, attached, decided, [(each.stop, each.name) for each in plan.earlier]
    )
    if not is_done("keep"):
        kept = dedup_stages.keep(plan, rows, decided, report.shown)
        files = _written(run)
        expected = stages.values("resolve")["documents_kept"]
        found = sum(name.startswith(f"{DOCUMENTS_FOLDER}/") for name in files)
        if (kept.documents, kept.files) != (expected, found):
            raise MrDedupError(
                f"{without_secrets(run.at(RESULT))}: tasks have written {kept.documents:,} "
                f"documents of {expected:,} to {kept.files:,} files, of which {found:,} are there; "
                "does something else write there?"
            )
        content = {
            "files": files,
            "checksums": dict(kept.checksums),
            "sizes": dict(kept.sizes),
            "texts": [[*where, text] for where, text in sorted(kept.texts.items())],
            "shares": [table.to_pydict() for table in kept.shares],
            "losing": kept.losing,
        }
        with whole_file(run.records / _KEPT, overwrite=True) as file:
            file.write(json.dumps(content).encode() + b"\n")
        # a store gets them with the records of the stage
        made = [f"{RESULT}/{name}" for name in files] if run.is_here else []
        stages.finish("keep", [_KEPT, *made], {})
    known: dict[str, Any] = json.loads((run.records / _KEPT).read_bytes())
    summary = {
        **stages.values("fingerprint"),
        **stages.values("cluster"),
        **stages.values("resolve"),
        "expected_recalls": [
            {"method": name, "recall": recall} for name, recall in options.expected_recalls.items()
        ],
    }
    texts = {(chunk, row): text for chunk, row, text in known["texts"]}
    return Deduplicated(
        cast("StageSummary", summary),
        known["checksums"],
        report.with_kept(texts, known["shares"], known["sizes"], known["losing"]),
    )
