"""`make clean` removes nothing unless its question is answered with yes, or FORCE=1 is given."""

import shutil
import subprocess

import pytest


@pytest.mark.parametrize(
    ("words", "answer", "removed"),
    [
        ([], "yes\n", True),
        (["FORCE=1"], "", True),
        ([], "no\n", False),
        ([], "\n", False),
        ([], "", False),
        (["FORCE=0"], "", False),
    ],
)
def test_clean_lists_sizes_and_removes_only_what_is_confirmed(tmp_path, words, answer, removed):
    shutil.copy("Makefile", tmp_path)
    for path, size in {
        "results/README.md": 1,
        "results/work/train/sft/optimizer.pt": (3 << 20) + (50 << 10),  # so that what folders take changes no digit
        "logs/a.log": 1,
        "data/raw/a.tar.zst": 1,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(bytes(size))
    done = subprocess.run(
        ["make", "clean", *words], cwd=tmp_path, input=answer, capture_output=True, text=True, check=False
    )
    sizes = dict(line.split("\t")[::-1] for line in done.stdout.splitlines())
    assert sizes["results/work"] == sizes["results"] == sizes["total"] == "3.1M"
    assert (done.returncode == 0) == removed
    assert (tmp_path / "results/work").exists() == (tmp_path / "logs").exists() == (not removed)
    assert (tmp_path / "data/raw/a.tar.zst").exists() and (tmp_path / "results/README.md").exists()
    assert ("error: nothing was removed" in done.stderr) == (not removed)


def test_clean_of_a_fresh_clone_has_nothing_to_remove(tmp_path):
    shutil.copy("Makefile", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/README.md").touch()
    done = subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "nothing to remove\n" and (tmp_path / "results/README.md").exists()


def test_help_names_every_target_with_what_it_does():
    done = subprocess.run(["make", "help"], capture_output=True, text=True, check=True)
    named = [line.split()[0] for line in done.stdout.splitlines() if len(line.split()) > 1]
    targets = subprocess.run(["sed", "-n", "s/^.PHONY: //p", "Makefile"], capture_output=True, text=True, check=True)
    assert sorted(named) == sorted(targets.stdout.split())
