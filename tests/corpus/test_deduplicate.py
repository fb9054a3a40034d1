import hashlib
import random
from collections import Counter

import pytest

from scripts.common.cli import UserError
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.deduplicate import deduplicate
from scripts.corpus.formats.funnel import DOCUMENTS, REJECTS, funnel
from tests.corpus.archives import call


def document(source, path, text, language="python"):
    digest = hashlib.sha256(text.encode()).hexdigest()
    known = {"text": text, "path": path, "source": source, "language": language}
    return known | {"sha256": digest}


def write_filtered(folder, texts):
    """texts: {source: {path: text}}, as corpus.filter leaves them."""
    for source, files in texts.items():
        with funnel(folder / source) as result:
            for path, text in sorted(files.items()):
                result.keep(document(source, path, text), len(text.encode()))


def deduplicated(folder, sources, out):
    with funnel(out) as result:
        deduplicate(folder, sources, result)
    return read_manifest(out), list(read_jsonl(out / DOCUMENTS)), list(read_jsonl(out / REJECTS))


def names(records):
    return [f"{record['source']}/{record['path']}" for record in records]


def test_of_equal_texts_the_first_source_then_the_first_path_stays(tmp_path):
    write_filtered(tmp_path, {"b": {"x.py": "one", "z.py": "two"}, "a": {"q.py": "one", "p.py": "one", "r.py": "3é"}})
    manifest, documents, rejects = deduplicated(tmp_path, ["b", "a"], tmp_path / "out")
    assert names(documents) == ["b/x.py", "b/z.py", "a/r.py"]
    assert [(name, r["reason"], r["detail"]) for name, r in zip(names(rejects), rejects, strict=True)] == [
        ("a/p.py", "duplicate", "b/x.py"),
        ("a/q.py", "duplicate", "b/x.py"),
    ]
    del manifest["files"]
    counts = {"kept": 3, "bytes": 9, "dropped": {"duplicate": 2}}
    assert manifest == {"seen": 5, "kept": 3, "dropped": {"duplicate": 2}, "languages": {"python": counts}}
    _, documents, rejects = deduplicated(tmp_path, ["a", "b"], tmp_path / "other")
    assert names(documents) == ["a/p.py", "a/r.py", "b/z.py"] and names(rejects) == ["a/q.py", "b/x.py"]


def test_documents_pass_unchanged_and_no_text_is_lost_or_left_twice(tmp_path):
    rng = random.Random(0)
    texts = {s: {f"{i:03}.py": rng.choice("αβγδ𝟙\n") * rng.randint(0, 40) for i in range(200)} for s in "cab"}
    write_filtered(tmp_path, texts)
    manifest, documents, rejects = deduplicated(tmp_path, ["c", "a", "b"], tmp_path / "out")
    every = [document(source, path, text) for source, files in texts.items() for path, text in sorted(files.items())]
    expected = list({record["text"]: record for record in reversed(every)}.values())[::-1]
    assert Counter(record["text"] for record in documents) == Counter({record["text"] for record in every})
    assert sorted(documents, key=str) == sorted(expected, key=str)
    assert manifest["seen"] == len(every) == len(documents) + len(rejects)
    first = {record["text"]: name for name, record in zip(names(documents), documents, strict=True)}
    assert all(reject["detail"] == first[texts[reject["source"]][reject["path"]]] for reject in rejects)


@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
def test_documents_that_are_not_what_their_manifest_says_are_refused(tmp_path, damage):
    write_filtered(tmp_path, {"a": {"x.py": "one"}, "b": {"x.py": "two"}})
    path = tmp_path / "b" / DOCUMENTS
    whole = path.read_bytes()
    path.write_bytes(whole[:-5] if damage == "truncated" else whole[:-1] + bytes([whole[-1] ^ 1]))
    if damage == "missing":
        path.unlink()
    with pytest.raises(UserError, match=str(path)):
        deduplicated(tmp_path, ["a", "b"], tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_the_command_line_names_a_source_that_is_not_there(tmp_path):
    write_filtered(tmp_path, {"a": {"x.py": "one"}})
    given = ["--filtered", tmp_path, "--out", tmp_path / "out", "--sources", "a"]
    assert call("deduplicate", *given).returncode == 0
    gone = call("deduplicate", *given, "b")
    assert gone.returncode == 1 and gone.stderr.strip() == f"error: {tmp_path / 'b' / 'manifest.json'}: no such file"
