"""What ``mr-dedup`` prints without arguments: the first commands of someone new to it."""

from __future__ import annotations

FIRST_STEPS = """\
mr-dedup finds near-duplicate documents, and keeps one of each.

On generated pages:
  data-gen documents --documents 1000 --duplicates-per-document 2 --seed 1 --out pages
  mr-dedup dedup pages -o kept                keep one document of each cluster
  mr-dedup pairs pages --method minhash       print the similar pairs
and open kept/report.html in a browser.

For your own documents, name files, globs, directories or URIs instead of pages: JSON lines with
"id" and "text", Parquet, WARC, text or HTML.

mr-dedup --help lists all commands, mr-dedup COMMAND --help describes one.
"""
