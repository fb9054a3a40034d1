"""Check this folder by its own files: `python3 check.py`, with nothing but Python.

It compares every file with SHA256SUMS, and those of the model with what evidence.json says was released. What it cannot
know: whether all files were replaced together (compare the seal that it prints with the publisher's), and whether the
scores are those of these weights.
"""

import hashlib
import json
import sys
from pathlib import Path


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def wrong_files(folder: Path) -> list[str]:
    """What is missing, changed or added."""
    sums, wrong = {}, []
    for line in (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        sums[name] = digest
    evidence = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))["evidence"]
    for source, expected in (("SHA256SUMS", sums), ("evidence.json", evidence["files"])):
        for name, digest in expected.items():
            if not (folder / name).is_file():
                wrong.append(f"{name}: missing, and {source} names it")
            elif sha256(folder / name) != digest:
                wrong.append(f"{name}: not the file that {source} names")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        beside = ("SHA256SUMS", "manifest.json")
        if path.is_file() and name not in sums and name not in beside and not name.endswith(".provenance.json"):
            wrong.append(f"{name}: SHA256SUMS does not name it")
    wrong += [f"{row['name']}: {row['text']}" for row in evidence["proof"] if row["holds"] is False]
    return wrong


def main() -> None:
    folder = Path(__file__).resolve().parent
    try:
        wrong = wrong_files(folder)
        content = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        sys.exit(f"{folder}: not a whole release: {error}")
    if wrong:
        sys.exit("\n".join([*wrong, f"{len(wrong)} things are wrong; get the release again"]))
    evidence = content["evidence"]
    print(f"{evidence['name']}: all files are those of seal {content['sha256']}")
    print(f"made by stagecraft at commit {evidence['commit']} from {evidence['base']['words']}")


if __name__ == "__main__":
    main()
