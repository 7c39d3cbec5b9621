"""``python datatrove_sentences.py SOURCE WORK sentences|lines``: spans of three, by datatrove.

SOURCE is a directory of JSON lines, WORK a new one: out/ gets the pages, step the number of the
step that runs. It needs datatrove alone, whose defaults are used, but for the two filters that the
last step also has, of pages with few words or few sentences: these divide each page that was cut
into words and sentences again, by spaCy, which took nine tenths of all its time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import SentenceDedupFilter, SentenceDedupSignature, SentenceFindDedups
from datatrove.pipeline.dedup.sentence_dedup import SentDedupConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter


def main(source: str, work: str, unit: str) -> None:
    """Run the three steps in this process."""
    config = SentDedupConfig(
        n_sentences=3, split_sentences=unit == "sentences", min_doc_words=0, min_num_sentences=0
    )
    steps = [
        [JsonlReader(source), SentenceDedupSignature(f"{work}/signatures", config=config)],
        [SentenceFindDedups(f"{work}/signatures", f"{work}/repeated", config=config)],
        [
            JsonlReader(source),
            SentenceDedupFilter(f"{work}/repeated", config=config),
            JsonlWriter(f"{work}/out", compression=None),
        ],
    ]
    for number, step in enumerate(steps, 1):
        Path(work, "step").write_text(f"{number} of {len(steps)}")
        LocalPipelineExecutor(step, tasks=1, logging_dir=f"{work}/logs{number}").run()


if __name__ == "__main__":
    main(*sys.argv[1:])
