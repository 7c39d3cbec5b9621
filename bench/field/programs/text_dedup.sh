#!/bin/sh
# De-duplicate Parquet files with text-dedup, by the settings of its README. PYTHON MODULE CORPUS
# KEPT SETTING…
set -e
python=$1 module=$2 corpus=$3 kept=$4
shift 4
cat >config.toml <<EOF
[input]
input_type = "local_files"
file_type = "parquet"
[input.read_arguments]
path = "parquet"
data_files = "$corpus/*.parquet"
split = "train"
[output]
output_dir = "$kept"
[debug]
enable_profiling = false
[algorithm]
text_column = "text"
EOF
printf '%s\n' "$@" >>config.toml
exec "$python" -m "text_dedup.$module"
