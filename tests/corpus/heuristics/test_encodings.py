"""Files in other encodings: converted exactly where the detector is sure, refused otherwise, counted."""

import random

import pytest

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.corpus.heuristics.encodings import decode_detected
from scripts.experiment.settings.corpus import Filter
from tests.corpus.archives import GOOD, write_archive

ALL = ["gbk", "big5", "shift-jis", "euc-jp", "euc-kr", "latin-1", "utf-16"]
CODE = GOOD.decode()
CHINESE = "# 读取配置文件，返回参数的值；如果出错则抛出异常。\n"
FRENCH = "# déjà vérifié: la fenêtre est à côté du garçon, même où la méthode française élève un paramètre naïf\n"
GERMAN = "# prüft die Größe für den Schlüssel und löscht ungültige Einträge\n"
RUSSIAN = "# проверка значения параметра, строка ошибки\n"
JAPANESE = "# 関数の値を返すテスト、設定ファイルのエラー\n"
KOREAN = "# 설정 파일을 읽고 값을 반환한다, 오류이면 예외를 던진다\n"
TAIWANESE = "# 讀取設定檔，傳回參數的值；如果發生錯誤則擲出例外狀況\n"
POLISH = "# długość ścieżki, błąd żądania, zażółć gęślą jaźń\n"


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [(CHINESE, "gbk", "gbk"), (CHINESE, "gb2312", "gbk"), (CHINESE + "# 𠮷 €\n", "gb18030", "gbk"),
     (FRENCH, "latin-1", "latin-1"),
     (GERMAN, "cp1252", "latin-1"), (CHINESE, "utf-16", "utf-16"), (FRENCH, "utf-16-le", "utf-16"),
     (JAPANESE, "cp932", "shift-jis"), (JAPANESE, "euc_jp", "euc-jp"), (KOREAN, "euc_kr", "euc-kr"),
     (TAIWANESE, "big5", "big5"), ("", "utf-16-be", "utf-16"), ("", "utf-16", "utf-16")],
)  # fmt: skip
def test_text_in_a_detected_encoding_is_converted_exactly(text, codec, name):
    content = CODE + text + CODE
    assert decode_detected(content.encode(codec), ALL) == (name, content)
    with pytest.raises(ValueError, match="looks like"):
        decode_detected(content.encode(codec), [encoding for encoding in ALL if encoding != name])


HOSTILE = {
    "Russian": (CODE + RUSSIAN).encode("koi8-r"),
    "Cyrillic Windows": (CODE + RUSSIAN).encode("cp1251"),
    "Polish": (CODE + POLISH).encode("cp1250"),
    "Polish on Unix": (CODE + POLISH).encode("iso8859-2"),
    "UTF-8 with a byte missing": (CODE + CHINESE).encode().replace("配".encode(), "配".encode()[1:]),
    "French UTF-8 with a byte missing": (CODE + FRENCH).encode().replace("ê".encode(), b"\xea", 1),
    "half of UTF-16": CODE.encode("utf-16")[:-1],
    "UTF-32": CODE.encode("utf-32"),
    "random": random.Random(0).randbytes(5000),
    "a picture": b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(5000),
    "controls": b"\xff\xfe" + "a\x01\x02\n".encode("utf-16-le") * 500,
    "mark alone": b"\xff\xfe",
    "zeros": b"\0" * 5000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_files_of_uncertain_encoding_are_dropped(kind, tmp_path):
    archive = write_archive(tmp_path, "demo", {"a.py": HOSTILE[kind], "b.py": GOOD})
    for encodings in ([], ALL):
        with funnel(tmp_path / "out") as result:
            filter_archive(archive, "demo", Filter(encodings=encodings), result)
        (reject,) = read_jsonl(tmp_path / "out" / REJECTS)
        assert reject["reason"] in ("encoding", "binary", "too_short") and "\n" not in reject["detail"]
        assert next(read_jsonl(tmp_path / "out" / DOCUMENTS))["path"] == "b.py"


def test_converted_documents_name_their_encoding_and_are_counted(tmp_path):
    files = {"a.py": (CODE + CHINESE).encode("gbk"), "b.py": (CODE + FRENCH).encode("latin-1"), "c.py": GOOD}
    files["d.py"] = (CODE + RUSSIAN).encode("koi8-r")
    archive = write_archive(tmp_path, "demo", files)
    with funnel(tmp_path / "out") as result:
        filter_archive(archive, "demo", Filter(encodings=["gbk"]), result)
    manifest, documents = read_manifest(tmp_path / "out"), list(read_jsonl(tmp_path / "out" / DOCUMENTS))
    assert [(document["path"], document.get("encoding")) for document in documents] == [("a.py", "gbk"), ("c.py", None)]
    assert documents[0]["text"] == CODE + CHINESE and manifest["converted"] == {"gbk": 1}
    assert manifest["dropped"] == {"encoding": 2} and manifest["seen"] == 4
    assert "looks like" in next(read_jsonl(tmp_path / "out" / REJECTS))["detail"]


def test_a_guess_of_latin_1_that_does_not_read_as_such_is_refused(monkeypatch):
    guess = {"encoding": "WINDOWS-1252", "confidence": 0.5}
    monkeypatch.setattr("chardet.detect", lambda raw: guess)
    assert decode_detected((CODE + GERMAN).encode("latin-1"), ALL) == ("latin-1", CODE + GERMAN)
    for raw in ((CODE + POLISH).encode("iso8859-2"), (CODE + CHINESE).encode("gbk"), (CODE + GERMAN).encode()):
        with pytest.raises(ValueError, match="symbols inside words"):
            decode_detected(raw, ALL)


DAMAGED = {
    "bidirectional": CODE + "access = 'user\u202e \u2066// only admins\u2069 \u2066'\n",
    "replacement": CODE + "# Gr\ufffd\ufffd\ufffde\n",
    "mojibake": CODE + (FRENCH + CHINESE).encode().decode("latin-1"),
}


@pytest.mark.parametrize("reason", DAMAGED)
def test_texts_with_damaged_or_deceiving_characters_are_dropped_and_others_stay(reason, tmp_path):
    good = {
        "french.py": CODE + FRENCH + "# « café — l’été », Ã, â\n",
        "chinese.py": CODE + CHINESE,
        "one.py": CODE * 2 + "LOST = '\ufffd'\n",
        "arabic.py": CODE + "# \u200fمرحبا بالعالم\u200e\n",
    }
    files = {name: text.encode() for name, text in good.items()} | {"bad.py": DAMAGED[reason].encode()}
    with funnel(tmp_path / "out") as result:
        filter_archive(write_archive(tmp_path, "demo", files), "demo", Filter(), result)
    rejects = [(reject["path"], reject["reason"]) for reject in read_jsonl(tmp_path / "out" / REJECTS)]
    assert rejects == [("bad.py", reason)]
