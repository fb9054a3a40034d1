"""Git repositories with a history, out of two source distributions each: what config/examples/own-code.yaml needs.

Histories of public repositories are large, and not everybody can reach their hosts; a package index has both versions.
Each becomes a commit of its Python files, dated by the newest file in the distribution. Author, dates and content are
fixed, so the commits are the pins of config/examples/own-code.tsv, which must come out the same.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.sources.providers.package_index import download

TABLE = Path("config/examples/own-code.tsv")
HEAD = ("name", "kind", "location", "pin", "language", "priority", "licence")
# the older version is trained on, of the newer one the files that the older has not are scored
PACKAGES = {
    "networkx": (
        "BSD-3-Clause",
        ("2.6.3", "c0946ed31d71f1b732b5aaa6da5a0388a345019af232ce2f49c766e2d6795c51"),
        ("3.5", "d4c6f9cf81f52d69230866796b82afbccdec3db7ae4fbd1b65ea750feed50037"),
    ),
    "sqlalchemy": (
        "MIT",
        ("1.4.54", "4470fbed088c35dc20b78a39aaf4ae54fe81790c783b3264872a0224f437c31a"),
        ("2.0.40", "d827099289c64589418ebbcaead0145cd19f4e3e8a93919a0100247af245fa00"),
    ),
    "django": (
        "BSD-3-Clause",
        ("3.2.25", "7ca38a78654aee72378594d63e51636c04b8e28574f5505dff630895b5472777"),
        ("5.2", "1a47f7a7a3d43ce64570d350e008d2949abe8c7e21737b351b6a1611277c6d89"),
    ),
    "dask": (
        "BSD-3-Clause",
        ("2022.1.0", "aee6eb6517f13dc00a3cc7ed9e13c728baa5850b8a35a2b93793d593a23ecbb8"),
        ("2025.1.0", "bb807586ff20f0f59f3d36fe34eb4a95f75a1aae2a775b521de6dd53727d2063"),
    ),
    "pytest": (
        "MIT",
        ("6.2.5", "131b36680866a76e6781d13f101efb86cf674ebb9762eb70d3082b6f29889e89"),
        ("8.3.5", "f4efe70cc14e511565ac476b57c279e12a855b11f48f212af1080ef2263d3845"),
    ),
    "scrapy": (
        "BSD-3-Clause",
        ("2.5.1", "13af6032476ab4256158220e530411290b3b934dd602bb6dacacbf6d16141f49"),
        ("2.12.0", "d66d6e76009b12447604196875a463b61d10721140032a8084a0a52df7f4788f"),
    ),
}


def git(folder: Path, *words: str, date: int = 0) -> str:
    """What git prints, with nothing of the user's in it."""
    person = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
        ("NAME", "stagecraft"), ("EMAIL", "stagecraft@example.org"), ("DATE", f"@{date} +0000")
    )}  # fmt: skip
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, env={**os.environ, **person, **alone}
    )
    if done.returncode:
        raise UserError(f"git {words[0]} in {folder}: {done.stderr.strip()}")
    return done.stdout.strip()


def commit_version(archive: Path, folder: Path, version: str) -> str:
    """Commit the Python files of a source distribution in place of those that are there; returns the commit."""
    git(folder, "rm", "-r", "-q", "--cached", "--ignore-unmatch", ".")
    with tarfile.open(archive) as tar, tempfile.TemporaryDirectory(dir=folder.parent) as work:
        members = [member for member in tar.getmembers() if member.isfile() and member.name.endswith(".py")]
        tar.extractall(work, members, filter="data")
        (top,) = Path(work).resolve().iterdir()
        newest = int(max(member.mtime for member in members))
        for path in top.rglob("*.py"):
            path.chmod(0o644)
        git(folder, f"--work-tree={top}", "add", "--all", "--force", ".")
        git(folder, "commit", "-q", "--no-verify", "-m", version, date=newest)
    print(f"{folder.name} {version}: {len(members):,} files of {datetime.fromtimestamp(newest, UTC).date()}")
    return git(folder, "rev-parse", "HEAD")


def make_repository(name: str, versions: tuple, folder: Path) -> list[str]:
    """The commits of both versions, in a new repository `folder`."""
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "--initial-branch=main")
    git(folder, "config", "core.autocrlf", "false")
    with tempfile.TemporaryDirectory() as work:
        return [
            commit_version(download(f"{name}=={version}", sha256, Path(work), 1e9, 600), folder, version)
            for version, sha256 in versions
        ]


def write_repositories(out: Path) -> None:
    """Make the repositories in the folder `out` where they are not there yet, and write the table of them.

    Raises:
        UserError: a package cannot be had, or the commits are others than those of the table.
    """
    rows = [HEAD]
    for name, (licence, *versions) in PACKAGES.items():
        folder = out / name
        commits = git(folder, "rev-list", "--reverse", "--all").split() if (folder / ".git").exists() else []
        if len(commits) != len(versions):
            commits = make_repository(name, versions, folder)
        for commit, suffix, priority in zip(commits, ("-old", ""), ("high", "medium"), strict=True):
            rows.append((f"{name}{suffix}", "git", str(folder), commit, "python", priority, licence))
    text = "".join("\t".join(row) + "\n" for row in rows)
    if not TABLE.exists():
        with atomic(TABLE) as temporary:
            temporary.write_text(text)
    if TABLE.read_text() != text:
        raise UserError(f"{TABLE}: the repositories came out with other commits; delete it to have it written again")
