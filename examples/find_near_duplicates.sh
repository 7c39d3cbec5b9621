#!/bin/sh
# The main job: find the near-duplicates of queries among a million fingerprints, and compare
# the matches with those that were planted.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

set -x
data-gen fingerprints --queries 10000 --corpus 1000000 --duplicates-per-query 3 -k 3 \
    --near-misses 2 --seed 1 --chunk-size 2MB --out data
mr-dedup query 'data/corpus-*.longs' --queries data/queries.longs -k 3 -r local -o matches.tsv
head -n 3 matches.tsv
cmp matches.tsv data/truth.tsv
set +x
echo "all near-duplicates of $(wc -l < matches.tsv) queries, and no other matches"
