"""The sha256 of files that were hashed before: a file is hashed again only where its size, times or inode changed.

    hashes = KnownHashes()
    hashes.sha256(Path("results/training/train/sft/model.safetensors"))
    hashes.save()

Hashing 15 GB takes seconds, and each start of the workflow asks. A bit that a disk flips without a new modification
time is not seen here; `stagecraft verify` reads every byte.
"""

from pathlib import Path

from scripts.common.files import read_cache, sha256_file, write_cache

NOTES = Path(".snakemake/stagecraft/hashes.json")


class KnownHashes:
    """Hashes noted in a JSON file by absolute path; a file that is not as it was written counts as empty."""

    def __init__(self, notes: Path = NOTES):
        self.notes = notes.absolute()
        self.known = read_cache(self.notes)
        self.unsaved = 0  # bytes hashed since the notes were written

    def sha256(self, path: Path) -> str:
        """The hex sha256 of a file. Raises FileNotFoundError: there is no such file."""
        facts = path.stat()
        state = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
        name = str(path.absolute())
        noted = self.known.get(name)
        if isinstance(noted, dict) and noted.get("state") == state and isinstance(noted.get("sha256"), str):
            return noted["sha256"]
        digest = sha256_file(path)
        self.known[name] = {"state": state, "sha256": digest}
        self.unsaved += max(1, facts.st_size)
        return digest

    def save(self, least: int = 1) -> None:
        """Write the notes, if so many bytes of files were hashed since; those of files that are gone are dropped."""
        if self.unsaved < least:
            return
        present = {name: note for name, note in self.known.items() if Path(name).is_file()}
        write_cache(self.notes, present)
        self.unsaved = 0
