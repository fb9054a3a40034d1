"""Untrusted repositories run nothing: every command that a repository's own files can name is planted in one."""

import os
import subprocess
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.sources.history import first_commits
from scripts.sources.providers.git import commit_as_tar, copy_file, head_commit
from scripts.sources.tables.from_folder import rows_of

pytestmark = pytest.mark.slow  # starts git many times

HOOKS = [
    *("applypatch-msg", "pre-commit", "post-checkout", "post-merge", "post-rewrite", "pre-auto-gc", "pre-push"),
    *("post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-receive", "update", "post-update"),
    *("proc-receive", "push-to-checkout", "prepare-commit-msg", "post-commit", "pre-rebase", "sendemail-validate"),
]
ALIASES = ["status", "rev-parse", "fetch", "archive", "cat-file", "ls-files", "upload-pack"]


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def marks(tmp_path):
    """A folder in which each planted command leaves a file when it runs."""
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


@pytest.fixture
def planted(tmp_path, marks):
    """plant(repository) writes commands into its .git, its configuration and its attributes."""

    def script(name: str) -> str:
        path = tmp_path / "commands" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {marks / name}\ncat\n")
        path.chmod(0o755)
        return str(path)

    def plant(repository: Path) -> Path:
        settings = {
            "core.fsmonitor": "fsmonitor",
            "core.hooksPath": "hookspath",
            "core.sshCommand": "ssh",
            "core.gitProxy": "proxy",
            "core.askPass": "askpass",
            "core.pager": "pager",
            "core.editor": "editor",
            "core.alternateRefsCommand": "alternates",
            "credential.helper": "credential",
            "diff.external": "external",
            "filter.evil.clean": "clean",
            "filter.evil.smudge": "smudge",
            "filter.evil.process": "process",
            "diff.evil.textconv": "textconv",
            "diff.evil.command": "diff",
            "gpg.program": "gpg",
            "uploadpack.packObjectsHook": "packobjects",
            "remote.origin.uploadpack": "uploadpack",
            "remote.origin.vcs": "ext",
            "tar.tar.command": "tar",
            "sequence.editor": "sequence",
            "interactive.diffFilter": "difffilter",
            "trace2.eventTarget": "trace2",
            **{f"alias.{name}": "alias" for name in ALIASES},
        }
        for key, name in settings.items():
            value = script(name)
            git(repository, "config", key, f"!{value}" if key.startswith(("alias", "credential")) else value)
        git(repository, "config", "pager.status", script("pagerstatus"))
        git(repository, "config", "protocol.ext.allow", "always")
        folder = Path(git(repository, "rev-parse", "--absolute-git-dir"))
        (folder / "hooks").mkdir(exist_ok=True)
        for hook in HOOKS:
            (folder / "hooks" / hook).unlink(missing_ok=True)
            (folder / "hooks" / hook).symlink_to(script(f"hook-{hook}"))
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "attributes").write_text("* filter=evil diff=evil\n")
        return repository

    return plant


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (folder / "a.py").write_text("print(1)\n")
    (folder / "LICENSE").write_text("Apache License Version 2.0")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_planted_commands_do_run_where_git_opens_the_repository(tmp_path, planted, marks):
    folder = planted(repository(tmp_path / "r"))
    (folder / "a.py").write_text("print(2)\n")
    subprocess.run(["git", "-C", folder, "status", "--porcelain"], capture_output=True, check=False)
    assert {"fsmonitor", "process"} <= {path.name for path in marks.iterdir()}  # else the tests below prove nothing


def test_table_from_a_folder_runs_nothing_out_of_its_repositories(tmp_path, planted, marks, caplog):
    folder = planted(repository(tmp_path / "tree/high/python/one"))
    (folder / "a.py").write_text("print(2)\n")
    planted(repository(folder / "nested"))  # a repository inside, as a submodule that is checked out
    main = repository(tmp_path / "elsewhere")
    git(main, "worktree", "add", "-q", tmp_path / "tree/high/python/linked")
    planted(main)
    rows = {row["name"]: row["pin"] for row in rows_of(tmp_path / "tree")}
    assert list(marks.iterdir()) == []
    heads = {name: (tmp_path / git_folder / "refs/heads" / branch).read_text().strip() for name, git_folder, branch in
             [("one", "tree/high/python/one/.git", "main"), ("linked", "elsewhere/.git", "linked")]}  # fmt: skip
    assert rows == heads
    assert "one: uncommitted changes are not part of the pinned commit: 2 files, as 'a.py'" in caplog.text
    assert "linked: what" not in caplog.text


def test_reading_a_commit_runs_nothing_out_of_the_repository(tmp_path, planted, marks):
    folder = repository(tmp_path / "r")
    commit = git(folder, "rev-parse", "HEAD")
    planted(folder)
    for number, location in enumerate((str(folder), f"file://{folder}")):
        with commit_as_tar(location, commit, tmp_path / f"tar{number}") as stream:
            assert b"print(1)" in stream.read()
        with (tmp_path / "out").open("wb") as out:
            copy_file(location, commit, "a.py", tmp_path / f"file{number}", out)
        assert (tmp_path / "out").read_text() == "print(1)\n"
        assert set(first_commits(location, commit, tmp_path / f"history{number}", 60)) >= {"a.py"}
    assert list(marks.iterdir()) == []


def test_objects_missing_in_a_partial_clone_are_not_asked_of_its_remote(tmp_path, planted, marks):
    origin = repository(tmp_path / "origin")
    git(origin, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "tree/high/python/partial"
    partial.parent.mkdir(parents=True)
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{origin}", partial)
    commit = git(partial, "rev-parse", "HEAD")
    planted(partial)
    with pytest.raises(UserError, match="partial: no commit to pin"):
        rows_of(tmp_path / "tree")
    with pytest.raises(UserError, match="cannot read"), commit_as_tar(str(partial), commit, tmp_path / "work"):
        pass
    assert list(marks.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository another owner")
def test_repository_of_another_owner_is_read(tmp_path, planted, marks):
    folder = repository(tmp_path / "r")
    commit = git(folder, "rev-parse", "HEAD")
    planted(folder)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 54321, 54321, follow_symlinks=False)
    assert head_commit(folder, tmp_path / "head") == (commit, [])
    with commit_as_tar(str(folder), commit, tmp_path / "tar") as stream:
        assert b"print(1)" in stream.read()
    assert list(marks.iterdir()) == []


def test_git_settings_of_the_user_apply(tmp_path, monkeypatch):
    folder = repository(tmp_path / "r")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[url "file://{folder}"]\n\tinsteadOf = https://mirror.example.org/r\n')
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    monkeypatch.setenv("HOME", str(home))
    with commit_as_tar("https://mirror.example.org/r", git(folder, "rev-parse", "HEAD"), tmp_path / "w") as stream:
        assert b"print(1)" in stream.read()
