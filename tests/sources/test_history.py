"""First commits: of files that were moved, merged, brought back; of hostile and incomplete repositories."""

import os
import subprocess

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.experiment.layout import FIRST_COMMITS
from scripts.sources.history import history
from scripts.sources.tables.source import PinnedSource

pytestmark = pytest.mark.slow  # starts git many times

DAY = 86_400
TEXT = "".join(f"line {number}\n" for number in range(40))


def git(folder, *arguments, day=None):
    dates = {"GIT_AUTHOR_DATE": f"@{day * DAY} +0000", "GIT_COMMITTER_DATE": f"@{day * DAY} +0000"} if day else {}
    words = ["git", "-C", folder, *arguments]
    return subprocess.run(words, check=True, capture_output=True, text=True, env=os.environ | dates).stdout.strip()


def commit(folder, day, **files):
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "--allow-empty", "-m", f"day {day}", day=day)


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def days(folder, out, pin=None):
    """{path: day of its first commit}"""
    pin = pin or git(folder, "rev-parse", "HEAD")
    source = PinnedSource.model_construct(name="it", kind="git", location=str(folder), pin=pin)
    history(source, out)
    manifest, rows = read_manifest(out), list(read_jsonl(out / FIRST_COMMITS))
    assert (manifest["pin"], manifest["paths"]) == (pin, len(rows))
    assert [row["path"] for row in rows] == sorted(row["path"] for row in rows)
    assert {path.name for path in out.iterdir()} == {"manifest.json", FIRST_COMMITS}
    return {row["path"]: row["first_commit"] // DAY for row in rows}


def test_a_file_is_as_old_as_its_first_commit_whatever_was_done_to_it_since(repository, tmp_path):
    commit(repository, 100, old_c=TEXT, gone_c="gone\n", back_c="back\n" * 9)
    commit(repository, 200, new_c="new\n" * 9, old_c=TEXT + "changed\n")
    git(repository, "mv", "old.c", "moved.c")
    commit(repository, 300, moved_c=TEXT + "moved and changed\n")
    git(repository, "rm", "-q", "gone.c", "back.c")
    commit(repository, 400)
    commit(repository, 500, back_c="something else\n", **{"odd \n\t name_c": "odd\n"})
    expected = {"moved.c": 100, "new.c": 200, "back.c": 100, "odd \n\t name.c": 500}
    assert days(repository, tmp_path / "out") == expected
    at_200 = git(repository, "rev-parse", "HEAD~3")
    assert days(repository, tmp_path / "earlier", at_200) == {
        "old.c": 100, "gone.c": 100, "back.c": 100, "new.c": 200
    }  # fmt: skip


def test_merged_files_are_as_old_as_on_their_branch_and_files_added_by_the_merge_as_old_as_it(repository, tmp_path):
    commit(repository, 100, a_c=TEXT)
    git(repository, "checkout", "-q", "-b", "side")
    commit(repository, 150, side_c="side\n")
    git(repository, "mv", "side.c", "side2.c")
    commit(repository, 160)
    git(repository, "checkout", "-q", "main")
    commit(repository, 200, main_c="main\n")
    git(repository, "merge", "-q", "--no-ff", "--no-commit", "side")
    git(repository, "mv", "a.c", "renamed by the merge.c")
    commit(repository, 300, evil_c="in no parent\n")
    expected = {"side2.c": 150, "main.c": 200, "evil.c": 300, "renamed by the merge.c": 100}
    assert days(repository, tmp_path / "out") == expected


def test_of_author_date_and_committer_date_the_earlier_counts(repository, tmp_path):
    (repository / "a.c").write_text("a\n")
    git(repository, "add", ".")
    dates = {"GIT_AUTHOR_DATE": f"@{900 * DAY} +0000", "GIT_COMMITTER_DATE": f"@{100 * DAY} +0000"}
    words = ["git", "-C", repository, "commit", "-q", "-m", "x"]
    subprocess.run(words, check=True, env=os.environ | dates)
    assert days(repository, tmp_path / "out") == {"a.c": 100}


def test_names_that_no_archive_holds_are_left_out_and_broken_dates_count_as_old(repository, tmp_path):
    (repository / os.fsdecode(b"caf\xe9.c")).write_text("latin 1\n")
    commit(repository, 100, **{"1700000000 1700000000": "a name like a header\n", "R100": "like a status\n"})
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    body = f"tree {tree}\nauthor a <a@b> never\ncommitter a <a@b> 99999999999999999999 +0000\n\nx\n"
    broken = subprocess.run(
        ["git", "-C", repository, "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        input=body, capture_output=True, text=True, check=True
    ).stdout.strip()  # fmt: skip
    assert days(repository, tmp_path / "out") == {"1700000000 1700000000": 100, "R100": 100}
    git(repository, "reset", "-q", "--hard", broken)
    assert set(days(repository, tmp_path / "broken").values()) == {0}


def test_a_shallow_clone_a_missing_commit_and_another_kind_are_refused_and_leave_nothing(repository, tmp_path):
    for day in (100, 200, 300):
        commit(repository, day, a_c=f"{day}\n")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", tmp_path / "shallow")
    out = tmp_path / "out"
    with pytest.raises(UserError, match=r"source it: .*shallow: a shallow clone, its history is cut off"):
        days(tmp_path / "shallow", out)
    with pytest.raises(UserError, match="no commit 0000"):
        days(repository, out, "0" * 40)
    with pytest.raises(UserError, match=r"cannot read .*none"):
        days(tmp_path / "none", out, "0" * 40)
    source = PinnedSource.model_construct(name="it", kind="path", location=str(repository), pin="0" * 64)
    with pytest.raises(UserError, match="source it: of kind path, which has no history"):
        history(source, out)
    assert list(out.iterdir()) == []
