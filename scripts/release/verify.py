"""Read every byte of what runs made, and compare it with its provenance: results, raw archives and checkpoints.

    print("\n".join(verify(("results", "data/raw"), print).wrong))

A start of the workflow hashes only files whose size or times changed. This finds what a disk changed without them.
"""

import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from scripts.common.disk import size_text
from scripts.common.files import read_cache
from scripts.common.known_hashes import KnownHashes
from scripts.experiment.reruns.provenance import SUFFIX, WITHOUT_RESULTS, Index, changed_inputs, first_difference
from scripts.training.engine.checkpoint_folders import damaged_file, is_complete

# of a results root the folders whose files all have provenance; beside them lie pages, records of code, smaller runs
AREAS = ("sources", "corpus", "tokens", "training", "evaluation", "report")


class Verified(NamedTuple):
    """What was read, and a line for each thing that is wrong."""

    jobs: int
    checkpoints: int
    wrong: list[str]


def files_without_provenance(index: Index) -> list[str]:
    """The files in the folders of areas that no readable provenance lists."""
    listed, copies = set(), {path.parent for path in index.copies}
    for made in index.jobs.values():
        listed.update(made.files)
    unlisted = []
    for top in index.folders:
        for folder, names, files in os.walk(top):
            names[:] = sorted(set(names) - WITHOUT_RESULTS)
            if not set(Path(folder).parts) & set(AREAS) or Path(folder) in copies:
                continue
            for file in sorted(files):
                path = os.path.join(folder, file)  # noqa: PTH118 (the form of the paths in provenance)
                if not file.startswith(".") and not file.endswith(SUFFIX) and path not in listed:
                    unlisted.append(path)
    return unlisted


def verify(folders: tuple[str, ...], report: Callable[[str], None]) -> Verified:
    """Compare all files in these folders with their provenance, and all checkpoints with their markers. `folders`: top
    folders, relative to the repository, such as `results`; `report`: called with a line about what is read next."""
    index, hashes = Index(folders), KnownHashes(Path(os.devnull))  # knows nothing, so that everything is read
    wrong = [*index.damaged.values()]
    names = chain.from_iterable(made.files for made in index.jobs.values())
    size = sum(path.stat().st_size for path in map(Path, names) if path.is_file())
    report(f"{len(index.jobs)} jobs, {size_text(size)} of files")
    for path, made in index.jobs.items():
        missing = [name for name in made.outputs if not Path(name).is_file()]
        wrong += [f"{path}: {name} is missing" for name in missing]
        difference = first_difference(made, hashes)
        if difference:
            wrong.append(f"{path}: {difference}")
        for name in changed_inputs(made, hashes):
            if Path(name).is_file():
                wrong.append(f"{path}: it was made from another {name}")
            else:
                wrong.append(f"{name}: missing; {path} says that a result was made from it")
    wrong += [f"{name}: no provenance lists it" for name in files_without_provenance(index)]
    for path, place in index.copies.items():
        wrong.append(f"{path.parent}: a copy of {place.parent}, which no run uses; move it out of the results")
    for top in folders:
        for path in sorted(Path(top).glob("**/code/*.json")):
            # of a results root, not of a dataset or a stage of this name
            if not set(path.parts) & set(AREAS) and not read_cache(path):
                wrong.append(f"{path}: not what was written; the next run writes it again")
    checkpoints = []
    for top in folders:
        checkpoints += sorted(Path(top).glob("**/checkpoint-*"))
    complete = [folder for folder in checkpoints if is_complete(folder)]
    if complete:
        report(f"{len(complete)} checkpoints")
    wrong += [f"{folder}: {name} is not what was saved" for folder in complete if (name := damaged_file(folder))]
    return Verified(len(index.jobs), len(complete), wrong)
