"""The features of a text, the slow and obvious way, by Python's own Unicode tables."""

import functools
import math
import string
import unicodedata
from collections import Counter
from itertools import groupby
from operator import itemgetter

import regex
import rjieba
import Stemmer
import stopwordsiso

_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\u30fc\uff70〆]")
_SCRIPTS = [
    "Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Tai_Le", "New_Tai_Lue", "Buginese", "Tai_Tham",
    "Balinese", "Yi", "Javanese", "Tai_Viet", "Tangut", "Khitan_Small_Script", "Nushu",
]  # fmt: skip
_SPACELESS = regex.compile(
    "[" + "".join(rf"\p{{Script={script}}}" for script in _SCRIPTS) + "\ua9cf]"
)
_EXTENDS = regex.compile(
    r"[\p{Grapheme_Cluster_Break=Extend}\p{Grapheme_Cluster_Break=SpacingMark}]"
)


_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")


def casefolded_nfkc(text):
    """Unicode's toNFKC_Casefold: its steps again and again, until nothing changes."""
    # the iota below a letter folds to a letter: in canonical order before that
    before, text = None, unicodedata.normalize("NFD", _IGNORABLE.sub("", text))
    while text != before:
        before = text
        text = unicodedata.normalize("NFKD", _IGNORABLE.sub("", text.casefold()))
    return unicodedata.normalize("NFC", text)


@functools.cache
def separates(character):
    """Whether a character is between words, before and after it is normalised."""
    shown = character + casefolded_nfkc(character)
    return len(shown) > 1 and not any(unicodedata.category(c)[0] in "LNM" for c in shown)


def casefolded_nfkc_of_words(text):
    """The same, but that what is between words stays as it is."""
    return "".join(
        "".join(run) if between else casefolded_nfkc("".join(run))
        for between, run in groupby(text, separates)
    )


def below(combining):
    """What may be between a letter and its mark, of a combining class, in canonical order."""
    return f"([{''.join(c for c in _MARKS if 0 < unicodedata.combining(c) < combining)}]*)"


_MARKS = [chr(code) for code in range(0x300, 0x1E950) if unicodedata.combining(chr(code))]
_ACCENTS = sorted(
    (c for c in _MARKS if unicodedata.is_normalized("NFC", "i" + c) is False),
    key=unicodedata.combining,
)
_YEH_AND_KAF = [("ك", "ک"), ("[يى]", "ی"), *((chr(0x660 + n), chr(0x6F0 + n)) for n in range(10))]
_DROPPED = {
    "arabic-marks": r"[\p{Mn}&&\p{Script_Extensions=Arabic}&&[\u0610-\u06ff]--[\u0653-\u0655]]|ـ",
    "hebrew-points": r"[\p{Mn}&&[\u0590-\u05ff]]",
}
_DOTTED = [
    *((rf"[Iı]{below(unicodedata.combining(c))}{c}", rf"i\1{c}") for c in _ACCENTS),
    (rf"[Iı]{below(230)}\u0307", r"i\1"),
    ("I", "ı"),
]
_BEFORE_CASE = {"apostrophe": [("\u00b4", "ʼ")], "turkish": _DOTTED}
_AFTER = {
    "apostrophe": [(r"['`‘’‛′\u02b9ʻʽʾʿꞋꞌ]", "ʼ")],
    "arabic-marks": [("ٱ", "ا")],
    "hamza": [(rf"ا{below(220)}\u0655", r"ا\1"), (rf"ا{below(230)}\u0654", r"ا\1")],
    "hebrew-points": [],
    "persian": [*_YEH_AND_KAF, (rf"ه{below(230)}\u0654", "ە\\1\u0654")],
    "romanian": [(rf"([st]){below(202)}\u0327", "\\1\\2\u0326")],
    "russian": [(rf"е{below(230)}\u0308", r"е\1")],
    "turkish": _DOTTED,
    "urdu": [*_YEH_AND_KAF, ("ه", "ہ"), (rf"ە{below(230)}\u0654", "ہ\\1\u0654")],
}


def with_foldings(*names):
    """The form in which letters that are written in two ways are one."""

    def form(text):
        text = rewritten(_IGNORABLE.sub("", text), _BEFORE_CASE)
        return rewritten(casefolded_nfkc(text), _AFTER)

    def rewritten(text, rules):
        dropped = [(_DROPPED[name], "") for name in names if name in _DROPPED]
        for pattern, to in dropped + [rule for name in names for rule in rules.get(name, ())]:
            before, text = None, unicodedata.normalize("NFD", text)
            while text != before:
                before, text = text, regex.sub(pattern, to, text, flags=regex.VERSION1)
        return unicodedata.normalize("NFC", text)

    return form


NORMALIZE = {
    "nfkc": casefolded_nfkc,
    "nfc": functools.partial(unicodedata.normalize, "NFC"),
    "none": str,
    "nfkc+urdu": with_foldings("urdu"),
    **{
        f"nfkc+{'+'.join(names)}": with_foldings(*names)
        for names in [sorted(_AFTER.keys() - {"urdu"})]
    },
}
EVERY_FOLDING = max(NORMALIZE, key=len)


@functools.cache
def is_in_token(character):
    return unicodedata.category(character)[0] in "LNM"


@functools.cache
def is_mark(character):
    """Whether a character goes on with the token before it, whichever that is."""
    if not is_in_token(character):
        return False
    is_mark = unicodedata.category(character)[0] == "M" and not _SPACELESS.match(character)
    return is_mark or bool(_EXTENDS.match(character))


@functools.cache
def is_cjk(character):
    return is_in_token(character) and not is_mark(character) and bool(_CJK.match(character))


@functools.cache
def stands(character):
    """Whether a character is a token by itself, with the marks that follow."""
    is_spaceless = is_in_token(character) and bool(_SPACELESS.match(character))
    return is_cjk(character) or (is_spaceless and not is_mark(character))


@functools.cache
def fold(character):
    """One character for one: ß stays, for folding it would make two."""
    return next(c for c in (character.casefold(), character.lower(), character) if len(c) == 1)


_OPERATORS = regex.compile(
    r"""
    (?<![-+*/<>=%&|!^~?\#$])
    (?! [<>=]*/[-+*/<>=%&|!^~?]*[<>] | [-+*/<>=%&|!^~?]*[<>][-+*/<>=%&|!^~?]*/ )
    (?:
        (?<=[^\0-\x20]\ ) (?![-|]\ ) [-+*/<>=%&|!^~?]{1,3} (?=\ [^\0-\x20])
      | (?<=[\w)\]}"']) (?![-/](?![-+*/<>=%&|!^~?])|--|//) [-+*/<>=%&|!^~?]{1,3} (?=[\w(\[{"'])
      | (?<![\w)\]}"']) [-+$\#<>=~] (?=[0-9])
      | (?<=[\w]) [+\#%]{1,2} (?![\w(\[{])
      | (?<![\w)\]}"']) [!~] (?=[\w(\[{])
    )
    (?![-+*/<>=%&|!^~?\#$])
    """.replace(r"\w", r"a-zA-Z0-9_\x80-\U0010ffff"),
    regex.VERBOSE,
)


def symbols_at(text, symbols):
    """Where in a normalised text symbols are tokens."""
    if symbols == "ignore":
        return set()
    kept = {i for i, character in enumerate(text) if is_symbol(character)}
    if symbols == "keep":
        return kept | {i for i, character in enumerate(text) if character in string.punctuation}
    return kept.union(*(range(*match.span()) for match in _OPERATORS.finditer(text)))


@functools.cache
def is_symbol(character):
    return character > "\x7f" and unicodedata.category(character)[0] == "S"


@functools.cache
def fold_symbol(character):
    """A full-width plus is a plus."""
    compatible = unicodedata.normalize("NFKC", character)
    if len(compatible) == 1 and (is_symbol(compatible) or compatible in string.punctuation):
        return compatible
    return fold(character)


def tokens(text, kept=()):
    """The tokens of a text, each with whether it is a character of a script without spaces."""
    found = []
    inside = is_open = False
    for i, character in enumerate(text):
        if i in kept or stands(character):
            found.append((fold_symbol(character) if i in kept else fold(character), i not in kept))
            inside, is_open = True, False
        elif is_in_token(character):
            if inside and (is_open or is_mark(character)):
                last, of_character = found.pop()
                found.append((last + fold(character), of_character))
            else:
                found.append((fold(character), False))
                is_open = True
            inside = True
        else:
            inside = is_open = False
    return found


def words_of_chinese(text, kept=()):
    """The tokens of a text, with the words that a run of CJK characters is cut into."""
    found, begin = [], 0
    for in_run, characters in groupby(text, is_cjk):
        run = "".join(characters)
        words = [word for word, _, _ in rjieba.tokenize(run)] if in_run else []
        found += [("".join(map(fold, word)), False) for word in words] or tokens(
            run, {i - begin for i in kept}
        )
        begin += len(run)
    return found


def normalised(text, normalize, symbols):
    """A text as it is split into tokens; with symbols of operators, others stay as they are."""
    form = NORMALIZE[normalize]
    if symbols != "auto":
        return form(text)

    def stays(character):
        shown = form(character)
        return shown != character and not any(map(is_in_token, character + shown))

    partly = "".join(
        "".join(run) if as_it_is else form("".join(run)) for as_it_is, run in groupby(text, stays)
    )
    return partly if any(map(is_in_token, partly)) else form(text)


@functools.cache
def runs_of_stop_words(language, segment, normalize, symbols):
    """The tokens of each stop word."""
    words = stopwordsiso.stopwords(language)
    found = [prepared(word, None, None, segment, normalize, symbols) for word in words]
    return [[token for token, _ in run] for run in found]


def prepared(text, stop_words=None, stem=None, segment=None, normalize="nfkc", symbols="ignore"):
    """The tokens of a text that are left when stop words are gone, as stems, Chinese as words."""
    text = normalised(text, normalize, symbols)
    kept = symbols_at(text, symbols)
    found = words_of_chinese(text, kept) if segment else tokens(text, kept)
    covered = set()
    for run in runs_of_stop_words(stop_words, segment, normalize, symbols) if stop_words else ():
        for start in range(len(found) - len(run) + 1):
            if [token for token, _ in found[start : start + len(run)]] == run:
                covered.update(range(start, start + len(run)))
    left = [token for place, token in enumerate(found) if place not in covered]
    if not left:
        return found
    found = left
    if stem:
        stemmer = Stemmer.Stemmer(stem)
        found = [(stemmer.stemWord(token) or token, is_cjk) for token, is_cjk in found]
    return found


def pieces(text, unit, **asked):
    """The normalised text, and where in it each word or character is."""
    normalised, places, before_is_cjk = "", [], True
    for token, token_is_cjk in prepared(text, **asked):
        if normalised and not (before_is_cjk and token_is_cjk):
            normalised += " "
        places.append((len(normalised), len(normalised) + len(token)))
        normalised += token
        before_is_cjk = token_is_cjk
    if unit == "characters":
        places = [(i, i + 1) for i in range(len(normalised))]
    return normalised, places


def shingles(text, unit, length, **asked):
    """Every shingle of a text, repeats too; a null has none."""
    if text is None:
        return []
    normalised, places = pieces(text, "words" if unit == "auto" else unit, **asked)
    if not places:
        # the text is its only feature
        return [NORMALIZE[asked.get("normalize", "nfkc")](text)]
    if unit == "auto":
        return shingles_by_script(normalised, places, prepared(text, **asked))
    if len(places) < length:
        return [normalised]
    return [
        normalised[places[i][0] : places[i + length - 1][1]]
        for i in range(len(places) - length + 1)
    ]


def shingles_by_script(normalised, places, tokens):
    """From each token on as much as three words, or five characters, are."""
    runs = [list(run) for _, run in groupby(tokens, key=itemgetter(1))]
    weights = [3 if standing and len(run) > 1 else 5 for run in runs for _, standing in run]
    firsts = [i for i in range(len(places)) if sum(weights[i:]) >= 15] or [0]
    found = []
    for first in firsts:
        end = first
        while sum(weights[first : end + 1]) < 15 and end < len(places) - 1:
            end += 1
        if first == firsts[-1]:
            end = len(places) - 1
        found.append(normalised[places[first][0] : places[end][1]])
    return found


def weight(times, weighting):
    """A feature's weight in 64ths; a logarithm of no more than 4,095 occurrences."""
    if weighting == "binary":
        return 64
    return 64 * times if weighting == "tf" else round(64 * (1 + math.log(min(times, 4095))))


def weighted(text, unit, length, weighting, **asked):
    """Each feature of a text, in order of appearance, with its weight."""
    counts = Counter(shingles(text, unit, length, **asked))
    return {shingle: weight(times, weighting) for shingle, times in counts.items()}
