"""The files of a clone as they are now: read again within a second of a change, for retrieval.

watch_for_ever(Path("~/tool"), experiment.corpus.filter, assistant)     # in a thread of its own

What git ignores, what the filter drops, and secrets stay out, as they do of a training split.
"""

import logging
import tempfile
import time
from pathlib import Path

from scripts.common.errors import UserError
from scripts.corpus.filter import accept, language_of, within_limit
from scripts.corpus.heuristics.quality import Dropped
from scripts.corpus.secrets.replace import SecretReplacer
from scripts.experiment.settings.corpus import Filter
from scripts.serving.assistant import Assistant
from scripts.sources.providers.git import NO_FILTER
from scripts.sources.providers.git_process import empty_repository, run_git

EVERY = 0.5  # seconds between two looks


def listed(folder: Path, repository: Path) -> dict[str, tuple[int, int]]:
    """Path → (time of change, size) of each file that git does not ignore. `repository`: an empty one of our own, so
    that nothing runs out of the folder's."""
    tree = f"--work-tree={folder}"
    found = run_git(repository, tree, "-C", str(folder), "ls-files", "-z", "--others", "--exclude-standard")
    files = {}
    for name in found.stdout.split("\0"):
        path = folder / name
        if name and not name.startswith(".git/") and path.is_file() and not path.is_symlink():
            facts = path.stat()
            files[name] = (facts.st_mtime_ns, facts.st_size)
    return files


def document_of(folder: Path, name: str, settings: Filter, secrets: SecretReplacer) -> dict | None:
    """A file as a document with `id` and `text`; None where the filter drops it."""
    given = memoryview((folder / name).read_bytes())
    content = within_limit(name, len(given), given, settings)
    language = language_of(name, content, settings)
    try:
        raw, text, _ = accept(name, language, len(given), content, settings)
        document = {"id": f"{folder.name}/{name}", "path": name, "text": text, "language": language}
        if settings.secrets == "replace":
            secrets.replace(document, raw)
    except Dropped:
        return None
    return document


class Watched:
    """The documents of a folder; `look` reads again what changed."""

    def __init__(self, folder: Path, settings: Filter, repository: Path):
        self.folder, self.settings, self.repository = folder.resolve(), settings, repository
        self.secrets, self.files, self.documents = SecretReplacer(), {}, {}

    def look(self) -> bool:
        """Whether anything changed; `documents` are then as the files are now."""
        files = listed(self.folder, self.repository)
        if files == self.files:
            return False
        for name in self.documents.keys() - files.keys():
            del self.documents[name]
        for name in files:
            if files[name] != self.files.get(name):
                self.documents.pop(name, None)
                document = document_of(self.folder, name, self.settings, self.secrets)
                if document:
                    self.documents[name] = document
        self.files = files
        return True


def watch_for_ever(folder: Path, settings: Filter, assistant: Assistant) -> None:
    """Keep what an assistant retrieves from as the files of a folder are."""
    with tempfile.TemporaryDirectory() as work:
        watched = Watched(folder, settings, empty_repository(Path(work), NO_FILTER))
        while True:
            try:
                if watched.look():
                    assistant.also_retrieve(watched.documents.values())
            except (OSError, UserError) as error:  # as of a file that went while it was read
                logging.warning(f"--watch {folder}: {error}")
            time.sleep(EVERY)
