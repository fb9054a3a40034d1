"""A cache of the rules' fingerprints, valid until a file of scripts/ changes: computing them takes seconds.

    fingerprint("scripts.corpus.filter")     # as scripts/experiment/reruns/fingerprint.py computes it

The file, `.snakemake/stagecraft/fingerprints.json`, names the hash of all files of scripts/ that it holds for.
"""

import hashlib
import json
import sys
from functools import cache
from pathlib import Path

from scripts.common.files import read_cache, write_cache
from scripts.experiment.optimizers import STAGE, modules_of_others
from scripts.experiment.reruns.fingerprint import PACKAGE, ROOT
from scripts.experiment.reruns.fingerprint import fingerprint as computed

KEPT = Path(".snakemake/stagecraft/fingerprints.json")


@cache
def tree_hash(root: Path) -> str:
    """A hash of the names and contents of all files of scripts/, and of the Python that reads them."""
    files = sorted(path for path in (root / PACKAGE).rglob("*") if "__pycache__" not in path.parts)
    digests = {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()
    }
    return hashlib.sha256(json.dumps([sys.version, digests]).encode()).hexdigest()


def fingerprint(module: str, without: tuple[str, ...] = (), file: Path = KEPT) -> str:
    """The fingerprint of what `python -m module` reaches, from the file where it holds for these scripts."""
    key = " without ".join([module, *without])
    tree, noted = tree_hash(ROOT), read_cache(file)
    kept = {}
    if noted.get("tree") == tree:
        kept = noted["fingerprints"]
    if key not in kept:
        kept[key] = computed(module, without)
        write_cache(file, {"tree": tree, "fingerprints": kept})
    return kept[key]


def stage_fingerprint(*optimizers: str) -> str:
    """The fingerprint of stages with these optimizers: without the code of others, which never runs in them."""
    return fingerprint(STAGE, modules_of_others(*optimizers))
