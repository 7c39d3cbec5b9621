#!/bin/sh
# The main job: queries and a corpus of a million fingerprints, some of them near-duplicates of a
# query; find these, and compare what was found with what was planted.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

set -x
data-gen fingerprints --queries 10000 --corpus 1000000 --duplicates-per-query 3 -k 3 \
    --near-misses 2 --seed 1 --chunk-size 2MB --out data
mr-dedup query 'data/corpus-*.longs' --queries data/queries.longs -k 3 -r local -o found.tsv
head -n 3 found.tsv
cmp found.tsv data/truth.tsv
set +x
echo "found all $(wc -l < found.tsv) queries' near-duplicates, and nothing else"
