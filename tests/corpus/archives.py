"""Archives for tests, written by the standard library's tarfile, and the documents that come out of them."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import zstandard

ROOT = Path(__file__).parents[2]
# a document that no rule drops
GOOD = "".join(f"def function_{i}(argument):\n    return argument + {i}\n\n" for i in range(9)).encode()


def tar_of(files: dict[str, bytes | None], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of files; a content of None makes a symbolic link, a name that ends in "/" a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "elsewhere"
            elif name.endswith("/"):
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content or b""))
    return buffer.getvalue()


def write_archive(folder: Path, name: str, files: dict[str, bytes | None] | bytes, form=tarfile.PAX_FORMAT) -> Path:
    """Write NAME.tar.zst and NAME.json below `folder`; the archive's path."""
    folder.mkdir(parents=True, exist_ok=True)
    tar = files if isinstance(files, bytes) else tar_of(files, form)
    path = folder / f"{name}.tar.zst"
    path.write_bytes(zstandard.compress(tar))
    manifest = {"sha256": hashlib.sha256(tar).hexdigest(), "files": len(files), "bytes": len(tar)}
    (folder / f"{name}.json").write_text(json.dumps(manifest))
    return path


def command(script: str, *arguments) -> list[str]:
    return [sys.executable, "-m", f"scripts.corpus.{script}", *map(str, arguments)]


def call(script: str, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run(command(script, *arguments), cwd=ROOT, capture_output=True, text=True)
