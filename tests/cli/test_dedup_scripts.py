"""Texts of many scripts: however they are encoded, one text is a near-duplicate of itself."""

import json
import random
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.features.foldings import FOLDINGS
from mr_dedup.features.shingle_sets import shingle_sets
from tests.cli.documents import write_jsonl
from tests.cli.running import by_turns
from tests.cli.test_dedup import done, mistake
from tests.features.test_normalisation import MEANINGS, SAME

PARTS = {
    "French": "ré çà cœur naï été où vê lu ï dé fa mi ron tal",
    "German": "groß straß füß ähn über maß tal haus ig keit",
    "Greek": "λόγ ος άνθρω πος ᾳ ΐ θάλασσ α ής ἀρχ",
    "Vietnamese": "bây giờ tiếng Việt nước người được đường phở những",
    "Korean": "한 국 어 텍 스 트 문 서 값 닭 읽 다",
    "Arabic": "كتا ب مدر سة لُغَ عَرَ بِيَّ ال سلا م",
    "Hindi": "हि न्दी क़ि ता ब भा षा ज़ मी न की",
    "Japanese": "日 本 語 が ぎ プ ロ グ ラ ム を 使 う",
    "Chinese": "我 们 中 国 人 文 字 网 页 是 的 了",
    "Thai": "ภา ษา ไทย น้ำ ดี ใจ ประ เทศ กรุง เทพ เรียน หนัง สือ",
    "Khmer": "ភា សា ខ្មែរ កម្ពុ ជា ទឹក ល្អ ប្រ ទេស រៀន",
    "Lao": "ພາ ສາ ລາວ ນ້ຳ ດີ ໃຈ ປະ ເທດ ຮຽນ",
    "Myanmar": "မြန် မာ ဘာ သာ ရေ ကောင်း နိုင် ငံ စာ",
    "Tibetan": "བོད་ སྐད་ ཡི་ གེ་ ཆུ་ བཟང་ པོ་ རྒྱལ་ ཁབ་",
    "Javanese": "ꦧꦱ ꦗꦮ ꦧꦚꦸ ꦲꦥꦶꦏ꧀ ꦤꦒꦫ ꦩꦕ",
}
SPACELESS = {"Japanese", "Chinese", "Thai", "Khmer", "Lao", "Myanmar", "Tibetan", "Javanese"}
WORDS = 100


def words_of(language, seed=0):
    rng = random.Random(f"{language} {seed}")
    parts = PARTS[language].split()
    return ["".join(rng.choices(parts, k=rng.randrange(2, 5))) for _ in range(WORDS)]


def full_width(text):
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def soft_hyphenated(text):
    return "".join(c + "\u00ad" if c.isalpha() else c for c in text)


VARIANTS = {
    "NFC": lambda text: unicodedata.normalize("NFC", text),
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "NFKD": lambda text: unicodedata.normalize("NFKD", text),
    "full width": full_width,
    "soft hyphens": soft_hyphenated,
    "upper case": str.upper,
    "byte order mark": "\ufeff{}".format,
}


def documents_of(language):
    space = "" if language in SPACELESS else " "
    text = f"{language} text: " + space.join(words_of(language))
    variants = {"as it is": text, **{name: vary(text) for name, vary in VARIANTS.items()}}
    return [
        {"id": f"{language}, {name}", "text": variant}
        for name, variant in variants.items()
        if name == "as it is" or variant != text
    ]


def changed(words, rng):
    place = rng.randrange(len(words))
    return [*words[:place], words[place][::-1] + words[place], *words[place + 1 :]]


@pytest.mark.parametrize("language", PARTS)
def test_a_word_of_a_hundred_changes_little(language):
    space = "" if language in SPACELESS else " "
    rng = random.Random(language)
    words = words_of(language)
    texts = [space.join(words), *(space.join(changed(words, rng)) for _ in range(20))]
    sets = shingle_sets(pa.array(texts, pa.large_string()))
    found = sets.jaccard(np.zeros(20, np.int64), np.arange(1, 21))
    assert found.min() > 0.9
    assert found.max() < 1


def decided(out):
    return pq.read_table(out / "decisions").to_pylist()


@by_turns(("method",), ["minhash", "simhash:k=0", "exact"])
def test_a_text_is_itself_however_it_is_encoded(tmp_path, capfd, runner, method):
    documents = [document for language in PARTS for document in documents_of(language)]
    path, out = write_jsonl(tmp_path / "docs.jsonl", documents), tmp_path / "out"
    done(capfd, path, "-o", out, "--method", method, "-r", runner)
    rows = decided(out)
    assert len(rows) > 5 * len(PARTS)
    for row in rows:
        language, name = row["id"].split(", ")
        assert row["kept_id"] == f"{language}, as it is"
        assert row["similarity"] == (None if name == "as it is" else 1)
    assert json.loads((out / "summary.json").read_text())["documents_kept"] == len(PARTS)


def test_texts_are_normalised_as_asked(tmp_path, capfd):
    documents = documents_of("French") + documents_of("German")
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    kept = {}
    for form in ("nfkc", "nfc", "none"):
        out = tmp_path / form
        done(capfd, path, "-o", out, "--method", "minhash", "--normalize", form)
        kept[form] = [row["id"] for row in decided(out) if row["kept_id"] == row["id"]]
        summary = json.loads((out / "summary.json").read_text())
        assert summary["features"] == f"auto:2, tf, normalize {form}, symbols auto"
        name = "minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto"
        normalize = "" if form == "nfkc" else f",normalize={form}"
        assert summary["methods"] == [f"{name}{normalize},symbols=auto"]
    assert kept["nfkc"] == ["French, as it is", "German, as it is"]
    more = ["full width", "soft hyphens"]
    assert kept["nfc"] == [
        f"{language}, {name}"
        for language, names in (("French", more), ("German", [*more, "upper case"]))
        for name in ("as it is", *names)
    ]
    assert "French, NFD" in kept["none"]
    asked = ["--method", "minhash", "--against", tmp_path / "nfc"]
    said = mistake(capfd, path, "-o", tmp_path / "x", *asked)
    assert "made from auto:2, tf, normalize nfc, symbols auto, those of this run are from" in said


@pytest.mark.parametrize("name", FOLDINGS)
def test_letters_written_in_two_ways_are_one_if_asked_for(tmp_path, capfd, name):
    same = [f"{text}, {text}" for text in SAME[name]]
    texts = {*same, *(word for pair in MEANINGS[name] for word in pair)}
    path = write_jsonl(tmp_path / "docs.jsonl", [{"id": t, "text": t} for t in sorted(texts)])
    found = {}
    for form in ("nfkc", f"nfkc+{name}"):
        out = tmp_path / form
        done(capfd, path, "-o", out, "--normalize", form)
        found[form] = {row["id"]: row["kept_id"] for row in decided(out)}
        assert f", normalize {form}," in json.loads((out / "summary.json").read_text())["features"]
    assert len({found["nfkc"][text] for text in same}) > 1
    assert len({found[form][text] for text in same}) == 1
    for one, other in MEANINGS[name]:
        assert found[form][one] != found[form][other]
    with pytest.raises(SystemExit):
        mistake(capfd, path, "-o", tmp_path / "x", "--normalize", f"nfkc+{name[:-1]}")
    assert f"did you mean {name}?" in capfd.readouterr().err
