#!/bin/sh
# The query job without our command line, as mrjob users run any job.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

set -x
data-gen fingerprints --queries 500 --corpus 50000 --duplicates-per-query 2 -k 3 --seed 3 \
    --chunk-size 128KB --out data
python -m mr_dedup.jobs.query -r local --no-conf --queries data/queries.longs \
    data/corpus-*.longs > matches.tsv
sort -n matches.tsv | cmp - data/truth.tsv
