"""Tasks of rule `repository_tasks` as chats to train on, or as folders in the form of Harbor.

    python -m scripts.evaluation.commands.export_tasks --tasks results/evaluation/repository_tasks/tasks.jsonl.zst \\
        --chats data/chat/functions.jsonl --harbor results/harbor

A chat asks for a function by its signature and docstring, and the answer is the function whose tests passed three
times; functions without a docstring are left out. Datasets of `kind: chat` read the file. Make the tasks for it from
sources that are trained on, not from those that `repository_tests` scores:

    python -m scripts.evaluation.repository_tasks --archives toolz=data/raw/toolz-1234567890ab.tar.zst \\
        --datasets results/corpus/compose --settings '{"tasks": 200, "tries": 400}' --out results/functions

Each Harbor task holds its repository, without the tests and with the body masked.
"""

import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_jsonl
from scripts.common.manifest import read_manifest
from scripts.evaluation.commands.environment import requirements
from scripts.evaluation.repository_functions.harbor import folder_name, write_harbor
from scripts.evaluation.repository_functions.instruction import instruction_of
from scripts.evaluation.repository_functions.task import RepositoryTask
from scripts.judge.repositories.repository import unpack


def write_chats(tasks: list[RepositoryTask], out: Path) -> int:
    """Write a chat a line; returns how many.

    Raises:
        UserError: no task has a docstring.
    """
    chats = [instruction.chat() for instruction in map(instruction_of, tasks) if instruction.documented]
    if not chats:
        raise UserError(f"{out}: not written: none of the {len(tasks)} functions has a docstring")
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic(out) as temporary:
        temporary.write_text("".join(f"{json.dumps(chat, ensure_ascii=False)}\n" for chat in chats), encoding="utf-8")
    return len(chats)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to `out` once it is complete.

    Raises:
        UserError: `out` exists.
    """
    if out.exists():
        raise UserError(f"{out}: already exists; remove it or name another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        folder = Path(work) / "made"
        folder.mkdir()
        yield folder
        folder.rename(out)


def write_harbor_tasks(tasks: list[RepositoryTask], archives: dict[str, Path], out: Path) -> None:
    """Write a folder for each task below `out`.

    Raises:
        UserError: `out` exists, or an archive is missing.
    """
    with new_folder(out) as folder, tempfile.TemporaryDirectory() as work:
        for source in sorted({task.source for task in tasks}):
            if not archives[source].is_file():
                raise UserError(f"{archives[source]}: no such file; the tasks of {source} were made from it")
            repository = unpack(source, archives[source], Path(work) / source)
            needed = requirements(repository.checkout)
            for task in tasks:
                if task.source == source:
                    write_harbor(task, repository, needed, folder / folder_name(task))
            shutil.rmtree(Path(work) / source)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--tasks", type=Path, required=True, help="file of tasks, beside its manifest")
    p.add_argument("--chats", type=Path, help="JSON lines to write")
    p.add_argument("--harbor", type=Path, help="folder to write; must not exist")
    args = p.parse_args()
    if not (args.chats or args.harbor):
        p.error("--chats or --harbor is needed")
    archives = {name: Path(archive) for name, archive in read_manifest(args.tasks.parent)["archives"].items()}
    tasks = [RepositoryTask(**record) for record in read_jsonl(args.tasks)]
    if args.chats:
        logging.info(f"{args.chats}: {write_chats(tasks, args.chats)} chats of {len(tasks)} tasks")
    if args.harbor:
        write_harbor_tasks(tasks, archives, args.harbor)
        logging.info(f"{args.harbor}: {len(tasks)} tasks")


if __name__ == "__main__":
    run(main)
