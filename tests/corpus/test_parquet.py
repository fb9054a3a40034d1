"""Parquet copies hold the rows of the JSON lines, in their order, in columns that do not depend on what is in them."""

import subprocess
import sys

import pandas as pd
import pytest
from pyarrow.parquet import ParquetFile

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.corpus import parquet as module
from scripts.corpus.parquet import QUALITY, columns_of, parquet

PLACE = {"id": "click/a.py", "language": "python", "source": "click"}
QUALITIES = {name: 0.25 for name in QUALITY} | {"origin": 1}
DOCUMENT = {"text": "héllo\n世界\t🙂\0", "path": "a.py", "source": "click", "language": "python", "sha256": "ab"}
REJECT = {"path": "b.py", "source": "click", "language": None, "reason": "size", "detail": "9 bytes"}
ROWS = {
    "documents": [
        *({**DOCUMENT, "path": f"{number}.py"} for number in range(20)),
        {**DOCUMENT, "licence": "MIT", "quality": QUALITIES, "encoding": "gbk", "cluster": "click/0.py"},
        {**DOCUMENT, "text": ""},
    ],
    "rejects": [REJECT, {**REJECT, "language": "c"}],
}
EXAMPLES = {
    "code": [{**PLACE, "text": "x = 1\n", "licence": "MIT"}, {**PLACE, "text": "y"}],
    "text": [{**PLACE, "text": "words"}],
    "repository": [
        {**PLACE, "text": "click\na.py\n1\n", "marks": [[0, "<|repo_name|>"], [6, "<|file_sep|>"]], "files": ["a.py"]}
    ],
    "instruct": [
        {
            **PLACE,
            "task": "parts",
            "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}],
        },
        {**PLACE, "messages": []},
    ],
    "chat": [{**PLACE, "messages": [{"role": "user", "content": "问"}, {"role": "assistant", "content": "答"}]}],
}


def folder_of(path, files, **facts):
    """A folder of JSON lines, as the rules write them."""
    for name, rows in files.items():
        write_jsonl(path / f"{name}.jsonl.zst", rows)
    write_manifest(path, [f"{name}.jsonl.zst" for name in files], **facts)
    return path


def rows_in(path, columns):
    """The rows of a Parquet file as the records of JSON lines; that a key is absent is null here."""
    for row in ParquetFile(path).read().to_pylist():
        if row.get("marks"):
            row["marks"] = [[mark["character"], mark["token"]] for mark in row["marks"]]
        yield {name: row[name] for name in columns.names}


@pytest.mark.parametrize("kind", [None, *EXAMPLES])
def test_the_rows_are_those_of_the_json_lines(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(module, "GROUP", 1000)  # characters, so that there are several groups
    files = {"train": EXAMPLES[kind], "test": []} if kind else ROWS
    facts = {"kind": kind} if kind else {}
    made = parquet([folder_of(tmp_path / "in", files, **facts)], tmp_path / "out")
    assert made == read_manifest(tmp_path / "out")  # it checks each file that it lists
    assert made["rows"] == {name: len(rows) for name, rows in files.items()}
    for name, rows in files.items():
        columns = columns_of(name, kind)
        assert ParquetFile(tmp_path / f"out/{name}.parquet").schema_arrow == columns
        expected = [{column: row.get(column) for column in columns.names} for row in rows]
        assert list(rows_in(tmp_path / f"out/{name}.parquet", columns)) == expected
    if kind is None:
        assert ParquetFile(tmp_path / "out/documents.parquet").num_row_groups > 1
        assert list(pd.read_parquet(tmp_path / "out/documents.parquet").text) == [
            row["text"] for row in files["documents"]
        ]


def test_the_sources_of_a_shard_are_one_table_in_their_order(tmp_path):
    folders = []
    for name in ("click", "attrs"):
        rows = {file: [{**row, "source": name} for row in rows] for file, rows in ROWS.items()}
        folders.append(folder_of(tmp_path / name, rows))
    made = parquet(folders, tmp_path / "out")
    assert made["rows"] == {"documents": 44, "rejects": 4}
    actual = [row["source"] for row in ParquetFile(tmp_path / "out/documents.parquet").read().to_pylist()]
    assert actual == ["click"] * 22 + ["attrs"] * 22


def test_equal_rows_give_equal_bytes_and_a_damaged_file_gives_none(tmp_path):
    folder = folder_of(tmp_path / "in", ROWS)
    assert parquet([folder], tmp_path / "one") == parquet([folder], tmp_path / "two")
    content = bytearray((folder / "rejects.jsonl.zst").read_bytes())
    content[-1] ^= 1
    (folder / "rejects.jsonl.zst").write_bytes(content)
    with pytest.raises(UserError, match=r"rejects\.jsonl\.zst: sha256 is "):
        parquet([folder], tmp_path / "three")
    assert not (tmp_path / "three").exists()


def test_a_key_without_a_column_is_not_lost_silently(tmp_path):
    folder = folder_of(tmp_path / "in", {"documents": [{**DOCUMENT, "stars": 5}]})
    with pytest.raises(AssertionError, match="stars"):
        parquet([folder], tmp_path / "out")


def test_a_killed_run_leaves_no_table_and_the_next_one_is_whole(tmp_path):
    """Killed while the second table is written, after a row group of it is on the disk."""
    folder = folder_of(tmp_path / "in", {"documents": ROWS["documents"], "rejects": [REJECT] * 50})
    program = (
        "import os, signal, sys; from pathlib import Path; from scripts.corpus import parquet as module\n"
        "module.GROUP, rows, row_of = 500, [], module.row_of\n"
        "def dies(record, columns):\n"
        "    rows.append(record)\n"
        "    return row_of(record, columns) if len(rows) < 60 else os.kill(os.getpid(), signal.SIGKILL)\n"
        "module.row_of = dies\n"
        "module.parquet([Path(sys.argv[1])], Path(sys.argv[2]))\n"
    )
    words = [sys.executable, "-c", program, folder, tmp_path / "out"]
    assert subprocess.run(words, check=False).returncode == -9
    assert {path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")} == {
        "documents.parquet"
    }
    parquet([folder], tmp_path / "out")
    parquet([folder], tmp_path / "whole")
    assert read_json(tmp_path / "out/manifest.json") == read_json(tmp_path / "whole/manifest.json")
    assert (tmp_path / "out/rejects.parquet").read_bytes() == (tmp_path / "whole/rejects.parquet").read_bytes()
