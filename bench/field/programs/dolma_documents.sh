#!/bin/sh
# De-duplicate JSON lines with dolma: mark documents whose text was seen before, drop them by its
# mixer. DOLMA CORPUS KEPT DOCUMENTS PROCESSES
set -e
mkdir documents
ln -s "$2"/* documents
"$1" dedupe --documents "$PWD/documents/*" \
    --dedupe.name seen \
    --dedupe.documents.attribute_name seen \
    --dedupe.documents.key '$.text' \
    --bloom_filter.file "$PWD/filter.bin" --no-bloom_filter.read_only \
    --bloom_filter.estimated_doc_count "$4" \
    --bloom_filter.desired_false_positive_rate 0.0001 \
    --processes "$5"
cat >mix.json <<EOF
{"streams": [{"name": "kept", "documents": ["$PWD/documents/*"], "attributes": ["seen"],
  "output": {"path": "$3", "max_size_in_bytes": 1000000000},
  "filter": {"exclude": ["\$.attributes[?(@.seen[0][2] > 0)]"]}}],
 "processes": $5}
EOF
"$1" -c mix.json mix
