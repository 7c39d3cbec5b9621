"""What a corpus contains: counts by registry, kind and language."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.field.describe import described, language_of, main
from bench.field.documents import SCHEMA

TEXTS = {
    "Chinese": "本指南介绍如何安装和使用这个程序,以及 options",
    "Czech": "Tento program je určen pro uživatele, které se zajímají o to, jak na to.",
    "Dutch": "Dit is het programma van de groep en niet voor de ander.",
    "English": "This is the manual of a program that prints the names of files.",
    "French": "Le programme affiche les noms des fichiers dans une fenêtre.",
    "German": "Das Programm zeigt die Namen der Dateien und ist nicht auf Linux beschränkt.",
    "Japanese": "このプログラムはファイルの名前を表示します。",
    "Korean": "이 프로그램은 파일의 이름을 보여 줍니다.",
    "Russian, Ukrainian, …": "Эта программа показывает имена файлов.",
    "Spanish": "El programa muestra los nombres de las carpetas que se usan para una copia.",
    "other, or no sentences": "i = 0x1F; 12345 !!!",
}


@pytest.mark.parametrize(("language", "text"), TEXTS.items())
def test_languages(language, text):
    assert language_of(text) == language


@pytest.mark.parametrize("text", ["", "-----", "é", "a"])
def test_texts_of_no_language(text):
    assert language_of(text) == "other, or no sentences"


def test_a_corpus_is_counted_by_registry_kind_and_language(tmp_path, capsys):
    rows = [
        {"id": "1", "text": TEXTS["German"], "kind": "html", "package": "debian:a@1"},
        {"id": "2", "text": TEXTS["German"], "kind": "prose", "package": "npm:@b/c@1"},
        {"id": "3", "text": "é" * 50, "kind": "py", "package": "npm:@b/c@2"},
    ]
    for part, few in enumerate((rows[:1], rows[1:])):
        pq.write_table(pa.Table.from_pylist(few, SCHEMA), tmp_path / f"part-{part}.parquet")
    size = len(TEXTS["German"].encode())
    assert described(tmp_path) == {
        "registry": {
            "debian": {"documents": 1, "text_bytes": size},
            "npm": {"documents": 2, "text_bytes": size + 100},
        },
        "kind": {
            "html": {"documents": 1, "text_bytes": size},
            "prose": {"documents": 1, "text_bytes": size},
            "py": {"documents": 1, "text_bytes": 100},
        },
        "language": {"German": {"documents": 2, "text_bytes": 2 * size}},
    }
    main([str(tmp_path), "--rows", "1"])
    printed = capsys.readouterr().out
    assert "| German | 2 | 0.0 |\n" in printed
    assert "| 2 others | 2 | 0.0 |\n" in printed


def test_a_directory_without_documents_is_a_usage_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "contains no documents" in capsys.readouterr().err
