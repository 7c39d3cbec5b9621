"""``python -m bench.field.describe CORPUS``: what a corpus contains, as tables in Markdown.

Documents and megabytes of text by registry, by kind, and by language where the kind is not code.
The language is that of the script, or the one whose most frequent words a text has most of: enough
for counting, not for a single short text.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.field.texts import is_code

Counts = Mapping[str, Counter[str]]

_HEAD = 5000
"""Characters that the language of a document is taken from."""

_OTHER = "other, or no sentences"
_MIN_SHARE = 0.08
_MIN_HITS = 3

_SCRIPTS = (
    ("HIRAGANA", "Japanese"),
    ("KATAKANA", "Japanese"),
    ("HANGUL", "Korean"),
    ("CJK", "Chinese"),
    ("CYRILLIC", "Russian, Ukrainian, …"),
    ("GREEK", "Greek"),
    ("THAI", "Thai"),
    ("HEBREW", "Hebrew"),
    ("ARABIC", "Arabic, Persian"),
)
"""Japanese first, as its texts have Chinese characters too."""

_FREQUENT = {
    "Catalan": "els les amb per una que és dels aquest però",
    "Czech": "je se na že nebo pro pokud jako které není",
    "Danish": "og at det som er på ikke med af til",
    "Dutch": "de het een van en niet met voor zijn op",
    "English": "the of and to in is that for it with as this be or by are",
    "Finnish": "ja on ei että se tai joka ovat myös kun",
    "French": "le la les des et est une dans pour que pas du",
    "German": "der die und das ist nicht mit den ein eine für auf",
    "Hungarian": "az és hogy nem egy vagy meg csak ezt lehet",
    "Italian": "il che di per una non della con del gli sono",
    "Polish": "nie na się jest że oraz lub przez dla są",
    "Portuguese": "os uma não para com do da em que são",
    "Romanian": "și de la este în pentru sau nu din care cu",
    "Spanish": "el los las que una para con del por es se su",
    "Swedish": "och att det som är för på inte med av",
    "Turkish": "ve bir bu için ile olarak veya da",
    "Vietnamese": "của và là các có được cho không một này",
}
_LANGUAGES: dict[str, list[str]] = defaultdict(list)
for _language, _words in _FREQUENT.items():
    for _word in _words.split():
        _LANGUAGES[_word].append(_language)


def language_of(text: str) -> str:
    """Return the language of a text.

    >>> language_of("Das ist nicht die ganze Anleitung für das Programm."), language_of("x = 1")
    ('German', 'other, or no sentences')
    """
    head = text[:_HEAD].lower()
    letters = Counter(head)
    total = sum(n for letter, n in letters.items() if letter.isalpha())
    scripts: Counter[str] = Counter()
    for letter, n in letters.items():
        if not letter.isascii() and letter.isalpha():
            scripts[unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]] += n
    for script, language in _SCRIPTS:
        if scripts[script] > _MIN_SHARE * total:
            return language
    words = re.findall(r"[^\W\d_]+", head)
    found = Counter(language for word in words for language in _LANGUAGES.get(word, ()))
    [(language, hits)] = found.most_common(1) or [(_OTHER, 0)]
    return language if hits >= max(_MIN_HITS, _MIN_SHARE * len(words)) else _OTHER


def described(corpus: Path) -> dict[str, Counts]:
    """Return documents and bytes of text of a corpus by registry, kind and language."""
    found: dict[str, dict[str, Counter[str]]] = {}
    for path in sorted(corpus.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(4096):
                sizes = pc.binary_length(batch["text"]).to_pylist()
                for row, size in zip(batch.to_pylist(), sizes, strict=True):
                    groups = {"registry": row["package"].partition(":")[0], "kind": row["kind"]}
                    if not is_code(row["kind"]):
                        groups["language"] = language_of(row["text"])
                    for group, value in groups.items():
                        counts = found.setdefault(group, {}).setdefault(value, Counter())
                        counts.update(documents=1, text_bytes=size)
    return {group: dict(values) for group, values in found.items()}


def table(group: str, counts: Counts, rows: int) -> str:
    """Return a table in Markdown with the values of most bytes, and all others as one row.

    >>> print(table("kind", {"html": Counter(documents=2, text_bytes=3_000_000)}, 9))
    | kind | documents | MB |
    |---|---|---|
    | html | 2 | 3.0 |
    """
    ordered = sorted(counts.items(), key=lambda item: (-item[1]["text_bytes"], item[0]))
    shown = ordered[:rows]
    if rest := ordered[rows:]:
        shown.append((f"{len(rest)} others", sum((count for _, count in rest), Counter())))
    lines = [f"| {group} | documents | MB |", "|---|---|---|"]
    lines += [
        f"| {value} | {count['documents']:,} | {count['text_bytes'] / 1e6:,.1f} |"
        for value, count in shown
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables of a corpus."""
    parser = argparse.ArgumentParser(prog="python -m bench.field.describe")
    parser.add_argument("corpus", type=Path, help="the output of bench.field.corpus")
    parser.add_argument("--rows", type=int, default=12, help="of each table")
    options = parser.parse_args(argv)
    found = described(options.corpus)
    if not found:
        parser.error(f"{options.corpus}: contains no documents")
    print("\n\n".join(table(group, counts, options.rows) for group, counts in found.items()))


if __name__ == "__main__":
    main()
