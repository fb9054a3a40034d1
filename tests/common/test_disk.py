"""scripts/common/disk.py: a full or read-only disk is one line with path and free space; nothing half-written stays."""

import re
import subprocess
import sys

import numpy as np
import pytest

from scripts.common.disk import disk_errors, size_text
from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl, write_json, write_jsonl
from tests.small_disk import small_disk  # noqa: F401

# zstd cannot compress them
RECORDS = [{"id": number, "text": np.random.default_rng(number).bytes(3000).hex()} for number in range(2000)]


def test_json_lines_on_a_full_disk_are_one_line_errors_and_leave_nothing(small_disk):  # noqa: F811
    path = small_disk.path / "filter/documents.jsonl.zst"
    with pytest.raises(UserError) as refused:
        write_jsonl(path, RECORDS)
    assert re.fullmatch(
        rf"{path}: No space left on device \(\d+ K?i?B of 1.0 MiB are free there now\)", str(refused.value)
    ), refused.value
    assert not list(path.parent.iterdir())
    small_disk.remount("size=16m")
    write_jsonl(path, RECORDS)
    assert list(read_jsonl(path)) == RECORDS


def test_a_full_disk_keeps_the_earlier_file(small_disk):  # noqa: F811
    path = small_disk.path / "a.json"
    write_json(path, {"old": 1})
    with pytest.raises(UserError, match="No space left on device"):
        write_json(path, {"new": "x" * (2 << 20)})
    assert read_json(path) == {"old": 1}
    assert list(small_disk.path.iterdir()) == [path]


def test_a_read_only_disk_is_a_one_line_error(small_disk):  # noqa: F811
    small_disk.remount("ro")
    for path in (small_disk.path / "a.jsonl.zst", small_disk.path / "new/folder/a.jsonl.zst"):
        with pytest.raises(UserError, match=r"/disk/.*: Read-only file system$"):
            write_jsonl(path, RECORDS)


def test_a_script_on_a_full_disk_prints_one_line_and_no_traceback(small_disk):  # noqa: F811
    code = "import sys; from scripts.common.cli import run; path = sys.argv[1]\n"
    code += "def main():\n    with open(path, 'wb') as file:\n        file.write(bytes(2 << 20))\nrun(main)"
    path = small_disk.path / "plain"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ") and "No space left on device" in done.stderr


def test_used_up_inodes_are_named(small_disk):  # noqa: F811
    small_disk.remount("nr_inodes=8")
    with pytest.raises(UserError, match=r"No space left on device for another file: all 8 inodes are in use"):
        for number in range(9):
            write_json(small_disk.path / f"{number}.json", {})


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.slow), "safetensors"])
def test_libraries_that_give_no_error_number_are_understood(small_disk, library):  # noqa: F811
    values = np.zeros(1 << 20, np.float32)
    path = small_disk.path / "weights"

    def write():
        if library == "numpy":
            values.tofile(path)
        elif library == "safetensors":
            from safetensors.numpy import save_file

            save_file({"a": values}, path)
        else:
            import torch

            torch.save(torch.from_numpy(values), path)

    small_disk.remount("ro")
    with pytest.raises(UserError, match=f"{small_disk.path}.*: Read-only file system"), disk_errors(path):
        write()
    small_disk.remount("rw")
    with pytest.raises(UserError, match=f"^{path}: No space left on device"), disk_errors(path):
        write()


def test_sizes_are_written_with_units():
    assert [size_text(n) for n in (0, 1023, 1024, 5 * 2**30, 3 * 2**40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 GiB",
        "3.0 TiB",
    ]
