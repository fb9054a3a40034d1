"""Write a task in the format of Harbor, the successor of Terminal-Bench: a folder that other tools can run.

    write_harbor(task, repository, requirements, Path("tasks/toolz-getter"))

    task.toml, instruction.md        what is asked, and limits
    environment/                     a Dockerfile, and the repository with the body masked and without its tests
    tests/test.sh                    puts the tests back, runs those of the task, writes 1 or 0 to reward.txt
    solution/solve.sh                the repository's own body

In this form tests and candidate run in one process, as Harbor's verifier does: its verdict can be forged.
"""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

from scripts.evaluation.repository_functions.instruction import instruction_of
from scripts.evaluation.repository_functions.task import RepositoryTask
from scripts.evaluation.repository_functions.task_selection import MASKED
from scripts.judge.repositories.repository import Repository

DOCKERFILE = """FROM python:{version}-slim
RUN pip install --no-cache-dir pytest{packages}
COPY repository /app
WORKDIR /app
"""
TEST = """#!/bin/bash
# The tests' own files go back into the repository; then those of the task decide.
app=${{APP:-/app}} logs=${{LOGS:-/logs/verifier}}
mkdir -p "$logs"
cp -r "$(dirname "$0")/files/." "$app/"
cd "$app" || exit 1
export PYTHONPATH={roots}
if python -m pytest -q --rootdir=. -p no:cacheprovider -o addopts= {tests}; then reward=1; else reward=0; fi
echo "$reward" > "$logs/reward.txt"
"""
SOLVE = """#!/bin/bash
cp "$(dirname "$0")/solved.py" "${{APP:-/app}}/"{path}
"""


def settings(task: RepositoryTask) -> str:
    """task.toml."""
    facts = {"source": task.source, "path": task.path, "function": task.function, "tests": task.tests}
    metadata = "".join(f"{key} = {json.dumps(value)}\n" for key, value in facts.items())
    return (
        'version = "1.0"\n\n[metadata]\ncategory = "programming"\ntags = ["python"]\n'
        f"{metadata}\n[verifier]\ntimeout_sec = 300.0\n\n[agent]\ntimeout_sec = 1800.0\n\n"
        "[environment]\nbuild_timeout_sec = 900.0\ncpus = 1\nmemory_mb = 2048\nstorage_mb = 10240\n"
    )


def folder_name(task: RepositoryTask) -> str:
    """The name of a task's folder."""
    line = task.id.rpartition(":")[2].partition("-")[0]
    return re.sub(r"[^a-z0-9]+", "-", f"{task.source}-{task.function}-{line}".lower()).strip("-")


def write_file(path: Path, text: str, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if executable:
        path.chmod(0o755)


def write_harbor(task: RepositoryTask, repository: Repository, requirements: list[str], out: Path) -> None:
    """Write a task to the folder `out`.

    Args:
        requirements: what pip installs for the repository and its tests.
    """
    instruction = instruction_of(task)
    hint = f"Only its body is missing, in `{task.path}`; the repository lies in `/app`.\n"
    write_file(out / "task.toml", settings(task))
    write_file(out / "instruction.md", f"{instruction.request}\n{hint}Do not change anything else.\n")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    packages = "".join(f" {shlex.quote(requirement)}" for requirement in requirements)
    write_file(out / "environment/Dockerfile", DOCKERFILE.format(version=version, packages=packages))
    for path in sorted(repository.checkout.rglob("*")):
        relative = path.relative_to(repository.checkout).as_posix()
        if path.is_file() and not path.is_symlink():
            place = out / ("tests/files" if relative in repository.hidden else "environment/repository") / relative
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    write_file(out / "environment/repository" / task.path, f"{task.before}{MASKED}{task.after}")
    roots = ":".join(f'"$app"/{shlex.quote(root)}' if root else '"$app"' for root in repository.roots)
    tests = " ".join(map(shlex.quote, task.tests))
    write_file(out / "tests/test.sh", TEST.format(roots=roots, tests=tests), executable=True)
    write_file(out / "solution/solved.py", f"{task.before}{task.answer}{task.after}")
    write_file(out / "solution/solve.sh", SOLVE.format(path=shlex.quote(task.path)), executable=True)
