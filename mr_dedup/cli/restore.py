"""Put back what mr-dedup passages or decontaminate has cut out of documents.

OUT is a result of mr-dedup passages with --cut, or of mr-dedup decontaminate with --action cut, a
directory or a URI. DIR becomes a directory with its documents as they were before they were cut,
in files of the names that they have in OUT: lines of JSON have the same bytes, rows of Parquet the
same values; documents that were written in another format than they were read in have their whole
text. Each one is compared with its checksum.
"""

from __future__ import annotations

import argparse

from mr_dedup.cli.remote_files import local_path
from mr_dedup.cli.streams import counted, print_message, print_warning


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    add = parser.add_argument
    add("result", metavar="OUT", help="the result of mr-dedup passages or decontaminate")
    add("-o", "--out", type=local_path, required=True, metavar="DIR", help="the directory to make")
    add("--overwrite", action="store_true", help="replace DIR if it exists")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from mr_dedup.files.inputs import require_not_read
    from mr_dedup.files.output_folders import locked, put_in_place, refuse_existing_folder
    from mr_dedup.files.temporary import folder_beside
    from mr_dedup.pipeline.restoring import restore
    from mr_dedup.pipeline.result_files import files_of

    out = arguments.out
    with locked(out, print_warning):
        if arguments.overwrite:
            require_not_read(out, [local_path(arguments.result)])
        refuse_existing_folder(out, arguments.overwrite)
        files = files_of(arguments.result, arguments.scratch_settings)
        with folder_beside(out) as folder:
            made = folder / "restored"
            made.mkdir()
            restored = restore(arguments.result, files, made)
            refuse_existing_folder(out, arguments.overwrite)
            put_in_place(made, out)
    print_message(
        f"{counted(restored.files, 'file')}, {counted(restored.documents, 'document')} restored: "
        f"{out}"
    )
    return 0
