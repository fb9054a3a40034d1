"""scripts/common/files.py and manifest.py: files are whole or absent, and what was changed is noticed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from scripts.common.errors import UserError
from scripts.common.files import atomic, read_jsonl, sha256_file, write_json, write_jsonl
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
