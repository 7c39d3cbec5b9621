"""The shell scripts that stand between Hadoop streaming and the Python of a task.

mrjob's own leave a URI unquoted, a lock file on each node, and the reason of a failure where
only the node's own log has it. These set up the node, fetch the task's input, run its command and,
if it failed, write its message to a directory of the job on the cluster, for the client.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Sequence

from mr_dedup.engines.package import FILE_LIST
from mr_dedup.engines.process import PROCESS_VARIABLES
from mr_dedup.engines.streaming.task_environment import (
    BYTES_VARIABLE,
    DESCRIPTIONS,
    HADOOP_VARIABLE,
    INPUT,
    LINES,
    NAME_VARIABLE,
    NUMBER_VARIABLE,
)
from mr_dedup.kernels.library import is_safe

MANIFEST = ".manifest"
"""What names of files end with that name inputs, a line each: URI TAB number TAB name."""

SPLIT_INPUTS = "split-inputs.tsv"
"""The file, in the directory of a task, with such lines for the inputs that are split, TAB size."""

CODE = "mr_dedup_code"
"""The directory, in that of a task, where the package is unpacked if no other one can be used."""

PACKAGE = f"{CODE}.zip"
"""The file, in the directory of a task, of the shipped package. Hadoop does not unpack it: that is
done for each job and node, and may start a process for each file."""

ENVIRONMENT = "environment"
"""The directory, in that of a task, where a packed environment is."""

_LOCALE = r"""
# without a locale of UTF-8, as containers of YARN often are, Java takes names of files for ASCII
case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in
    *[Uu][Tt][Ff]8* | *[Uu][Tt][Ff]-8*) ;;
    *) export LC_ALL=C.UTF-8 ;;
esac
"""

_RUN_AND_REPORT = r"""
# the script runs itself, so as to see all that goes wrong from its first line on
if [ -z "${MR_DEDUP_TASK:-}" ]; then
    export MR_DEDUP_TASK=1
    { { sh "$0" "$@"; echo $? >task-code; } 2>&1 >&3 3>&- | tee task-stderr >&2; } 3>&1
    code=$(cat task-code)
    [ "$code" -eq 0 ] && exit
    {
        echo "failed: ${mapreduce_task_attempt_id:-} $code ${NM_HOST:-}"
        cat $INPUT 2>/dev/null || echo
        # one line a line: what the parts of the file begin with stays telling; of a long line only
        # the beginning, so that a long message does not displace the traceback before it
        grep -v '^reporter:' task-stderr | tail -n 200 | cut -b 1-32768 | tail -c 262144 |
            sed 's/^/ /'
    } | hadoop_command fs -put -f - "$FAILURES/${mapreduce_task_attempt_id:-unknown}" >&2
    exit "$code"
fi
set -e
"""

_SET_PATH = r"""
export PYTHONPATH="$PWD/$ENVIRONMENT${PYTHONPATH:+:$PYTHONPATH}"
"""

_SET_UP_NODE = r"""
# whether a copy of the package is whole: what cleans /tmp removes old files one by one
is_whole() {
    [ -f "$1/$LIST" ] && (cd "$1" && while IFS= read -r file; do
        [ -e "$file" ] || exit 1
    done <$LIST)
}
unpack() { python_command -m zipfile -e "$PACKAGE" "$1"; }
# Python keeps its bytecode for the next task beside the sources: at a path that stays
code=
cache=${MR_DEDUP_CACHE_DIR:-/tmp/mr_dedup-$(id -u)}
# others can make what is there by that name, for its code to be run
if mkdir -p -m 700 "$cache" 2>/dev/null && [ -w "$cache" ] &&
    python_command -c "$IS_SAFE" "$cache"; then
    copy=$cache/code-$DIGEST
    if ! is_whole "$copy" && new=$(mktemp -d "$cache/new-XXXXXX"); then
        if unpack "$new"; then
            # another task may have been quicker
            is_whole "$copy" || mv -T "$copy" "$new.old" 2>/dev/null || :
            mv -T "$new" "$copy" 2>/dev/null || :
        fi
        rm -rf "$new" "$new.old"
    fi
    ! is_whole "$copy" || code=$copy
    export MR_DEDUP_CACHE_DIR="$cache"
fi
if [ -z "$code" ]; then
    code=$PWD/$CODE
    unpack "$code"
fi
export PYTHONPATH="$code:$PYTHONPATH"
"""

_FIND_INPUT = r"""
# what is read: a line of a manifest, or lines of a file that is split, which are found by its name
case ${mapreduce_map_input_file:-} in
    *$MANIFEST | '')
        line=$(cat)
        INPUT_PATH= ;;
    *)
        path=${mapreduce_map_input_file#*://}
        line=$(while IFS= read -r line; do
            uri=${line%%$TAB*}
            uri=${uri#*://}
            # with the host only if the input has one
            case $path in "$uri" | "${path%%/*}$uri") printf '\t%s' "$line" ;; esac
        done <$SPLIT_INPUTS)
        if [ -z "$line" ]; then
            echo "no input has the URI $mapreduce_map_input_file" >&2
            exit 1
        fi
        INPUT_PATH=$LINES ;;
esac
# offset TAB URI TAB number TAB name, and TAB size of what is split, TAB TAB descriptions
INPUT_URI=$(printf %s "$line" | cut -f 2)
export $NUMBER="$(printf %s "$line" | cut -f 3)" $NAME="$(printf %s "$line" | cut -f 4)"
export $BYTES="$(printf %s "$line" | cut -f 5)"
printf '%s\n' "$INPUT_URI" >$INPUT
echo "reporter:status:reading $INPUT_URI" >&2
printf %s "$line" | cut -f 6- >$DESCRIPTIONS
[ "$(wc -c <$DESCRIPTIONS)" -le 1 ] || INPUT_PATH=$DESCRIPTIONS
"""

_FETCH_AND_RUN = r"""
[ -z "$INPUT_PATH" ] || exec "$@" "$INPUT_PATH" "$INPUT_URI"
name=${INPUT_URI##*/}
# its endings state the format; Hadoop takes a name for a URI
endings=
case $name in
    *.*) endings=.$(printf %s "${name#*.}" | LC_ALL=C tr -c A-Za-z0-9. _) ;;
esac
INPUT_PATH=$PWD/input$endings
# it takes a name for a glob
literal=$(printf %s "$INPUT_URI" | sed 's/[][*?{}\\]/\\&/g')
hadoop_command fs -copyToLocal "$literal" "$INPUT_PATH" >&2
exec "$@" "$INPUT_PATH" "$INPUT_URI"
"""

_RUN = """
exec "$@"
"""


def task_script(
    hadoop: Sequence[str],
    python: Sequence[str],
    failures: str,
    digest: str,
    setup: Sequence[str],
    *,
    reads_manifest: bool,
) -> list[str]:
    """Return the lines of a script that runs its arguments as a task.

    ``hadoop`` and ``python`` are the commands on the nodes, ``failures`` is the directory for
    reports, ``digest`` that of the shipped package, ``setup`` are lines of the user's.
    """
    settings = [
        f'hadoop_command() {{ {shlex.join(hadoop)} "$@"; }}',
        f'python_command() {{ {shlex.join(python)} "$@"; }}',
        f"FAILURES={shlex.quote(failures)}",
        f"CODE={CODE} PACKAGE={PACKAGE} LIST={FILE_LIST} DIGEST={digest}",
        f"ENVIRONMENT={ENVIRONMENT}",
        f"IS_SAFE={shlex.quote(_is_safe_program())}",
        f"export {HADOOP_VARIABLE}={shlex.quote(shlex.join(hadoop))}",
        f"NUMBER={NUMBER_VARIABLE} NAME={NAME_VARIABLE} BYTES={BYTES_VARIABLE} LINES={LINES}",
        f"MANIFEST={MANIFEST} SPLIT_INPUTS={SPLIT_INPUTS} TAB='\t'",
        f"INPUT={INPUT} DESCRIPTIONS={DESCRIPTIONS}",
        # unless the cluster sets them
        *(f'export {name}="${{{name}-{value}}}"' for name, value in PROCESS_VARIABLES.items()),
    ]
    # found first, so that a node that cannot be set up says of which input
    find, run = (_FIND_INPUT, _FETCH_AND_RUN) if reads_manifest else ("", _RUN)
    return [
        "# what Hadoop streaming runs for a task of mr_dedup",
        *settings,
        *_LOCALE.splitlines(),
        *_RUN_AND_REPORT.splitlines(),
        *find.splitlines(),
        *_SET_PATH.splitlines(),
        *setup,
        *_SET_UP_NODE.splitlines(),
        *run.splitlines(),
    ]


def _is_safe_program() -> str:
    """Return ``is_safe`` as a program, which a node runs before it has the package."""
    return (
        f"import os, stat, sys\nfrom pathlib import Path\n\n{inspect.getsource(is_safe)}\n"
        "sys.exit(not is_safe(Path(sys.argv[1])))"
    )
