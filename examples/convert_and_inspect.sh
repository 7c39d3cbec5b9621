#!/bin/sh
# One corpus as longs, text and packed; packed files are a third smaller and searched as they are.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

set -x
data-gen fingerprints --queries 1000 --corpus 200000 --duplicates-per-query 2 -k 3 --seed 2 \
    --distribution prefix --prefix-bits 24 --out data
mr-dedup convert data/corpus-00000.longs -o corpus.fpz
mr-dedup inspect corpus.fpz
mr-dedup convert data/queries.longs -o queries.txt
head -n 2 queries.txt
mr-dedup query corpus.fpz --queries queries.txt --with-distance -o matches.tsv
head -n 2 matches.tsv | cut -c 1-100
