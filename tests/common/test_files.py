"""scripts/common/files.py and manifest.py: files are whole or absent, and what was changed is noticed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import zstandard

from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json, read_jsonl, sha256_file, write_json, write_jsonl
from scripts.common.known_hashes import KnownHashes
from scripts.common.manifest import read_manifest, write_manifest

RECORDS = [{"text": "naïve 代码\n\u2028\x00"}, {"n": 2**53, "empty": ""}]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "old"


def test_a_killed_writer_leaves_no_file_under_its_name(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from scripts.common.files import jsonl_writer\n"
        "with jsonl_writer(Path(sys.argv[1])) as write:\n"
        "    [write({'text': 'x' * 1000}) for _ in range(10000)]; print('half', flush=True); time.sleep(60)\n"
    )
    path = tmp_path / "a.jsonl.zst"
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"half\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not path.exists()


def test_jsonl_round_trips_and_is_plain_zstd_and_json(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    write_jsonl(path, RECORDS)
    assert list(read_jsonl(path)) == RECORDS
    with zstandard.open(path, "rt", encoding="utf-8", newline="\n") as file:
        assert [json.loads(line) for line in file.read().split("\n")[:-1]] == RECORDS


def test_equal_records_give_equal_bytes_at_another_time(tmp_path):
    write_jsonl(tmp_path / "a.jsonl.zst", RECORDS)
    time.sleep(0.01)
    write_jsonl(tmp_path / "b.jsonl.zst", iter(RECORDS))
    assert (tmp_path / "a.jsonl.zst").read_bytes() == (tmp_path / "b.jsonl.zst").read_bytes()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"not zstd at all", 1),
        (zstandard.compress(b'{"a": 1}\n{"b": \n'), 2),
        (zstandard.compress(b'{"a": 1}\n\xff\xfe\n'), 2),
        (zstandard.compress(b'{"a": 1}\n{"b": 1}\n{"c": 1}'), 3),
    ],
)
def test_a_broken_jsonl_names_its_file_and_line(tmp_path, content, line):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"a\.jsonl\.zst: line {line}: "):
        list(read_jsonl(path))


def test_a_jsonl_cut_anywhere_is_noticed(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    records = [{"n": number, "text": str(number) * 50} for number in range(2000)]
    write_jsonl(path, records)
    content = path.read_bytes()
    assert list(read_jsonl(path)) == records
    for end in range(0, len(content), 97):
        path.write_bytes(content[:end])
        with pytest.raises(UserError):
            list(read_jsonl(path))


def test_missing_and_malformed_json_name_their_file(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(b"{\xff")
    with pytest.raises(UserError, match=r"a\.json: not JSON"):
        read_json(tmp_path / "a.json")


def test_a_manifest_depends_on_content_alone(tmp_path):
    texts = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        write_json(folder / "data.json", {"b": 1, "a": 2})
        write_manifest(folder, ["data.json"], kept=3)
        texts.append((folder / "manifest.json").read_bytes())
        os.utime(folder / "data.json", (1, 1))
    assert texts[0] == texts[1]
    manifest = json.loads(texts[0])
    assert manifest["kept"] == 3
    digest = subprocess.run(["sha256sum", tmp_path / "one/data.json"], capture_output=True, text=True, check=True)
    assert (
        manifest["files"]["data.json"]["sha256"] == digest.stdout.split()[0] == sha256_file(tmp_path / "one/data.json")
    )


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_changed_file_is_refused_by_its_manifest(tmp_path, damage):
    data = tmp_path / "data.bin"
    data.write_bytes(bytes(range(256)))
    write_manifest(tmp_path, ["data.bin"])
    read_manifest(tmp_path)
    if damage == "remove":
        data.unlink()
    else:
        data.write_bytes(bytes(range(255)) + (b"\x00" if damage == "flip" else b""))
    with pytest.raises(UserError, match=r"data\.bin"):
        read_manifest(tmp_path)


def test_a_hash_that_was_noted_is_believed_only_as_it_was_written(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"weights")
    notes = tmp_path / "notes/hashes.json"
    first = KnownHashes(notes)
    digest = first.sha256(tmp_path / "model.bin")
    first.save()
    assert KnownHashes(notes).known and KnownHashes(notes).sha256(tmp_path / "model.bin") == digest
    flipped = ("0" if digest[0] != "0" else "1") + digest[1:]
    notes.write_text(notes.read_text().replace(digest, flipped))
    assert KnownHashes(notes).sha256(tmp_path / "model.bin") == digest
    notes.unlink()
    notes.parent.rmdir()
    notes.parent.write_text("a file in the place of the folder")
    blocked = KnownHashes(notes)
    assert blocked.sha256(tmp_path / "model.bin") == digest
    blocked.save()
