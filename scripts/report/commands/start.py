"""`stagecraft start`: an experiment for a folder of clones, or for a file of chats, without editing a file.

    stagecraft start ~/repositories
    stagecraft start ~/repositories --base Qwen/Qwen2.5-Coder-7B --profile a40 --time 8h

It reads the newest commit of each clone as the filter does, and writes a table of sources and an experiment that lays
over the default one: retrieve from this code, fine-tune on it, both, or neither? The numbers are of the profile's
machine (proposal.py). Without a profile, on a host with GPUs, it writes a profile and a machine file for them.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.corpus.formats.chat_forms import BadRecord
from scripts.corpus.formats.own_datasets import check_first_chats, contents
from scripts.corpus.formats.record_readers import files_of, json_lines
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.experiment.settings.corpus import ChatDataset
from scripts.experiment.settings.machine import Machine
from scripts.report.commands.clones import Clone, clones_below, described, look_at
from scripts.report.commands.proposal import DEFAULT, FoundBase, Proposal, found_base, hours_of, memory, propose
from scripts.report.commands.this_host import chosen_profile
from scripts.sources.tables.from_folder import location_of, number_equal_names, write_sources
from scripts.sources.tables.source import COLUMNS
from scripts.sources.tables.sources_table import read_sources
from scripts.training.planning.overview import BYTES_PER_TOKEN, machine_of, print_plans

EXPERIMENTS = Path("config")
HELD_OUT, HELD_OUT_GPU = 24, 200  # files that are held out, where there are enough
FEW = 12  # held-out files below which little can be told
LEAST = 30  # files of code without which nothing is left to train on
MEMORY = 5 << 30  # bytes that the default experiment needs
CHAT_SPLIT = {"validation": 0.05, "test": 0.1}
# the names under which question and answer stand in people's files, beside those that are read anyway
QUESTIONS, ANSWERS = ("question", "query", "problem", "user"), ("answer", "response", "solution", "assistant")


def in_yaml(header: str, settings: dict) -> str:
    """An experiment's file; each mapping without mappings in it is on one line."""
    plain = json.loads(json.dumps(settings))  # without aliases, where two places hold the same
    text = yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    return f"# yaml-language-server: $schema=schema.json\n{header}{text}"


def table_of(clones: list[Clone]) -> list[dict[str, str]]:
    """The rows of the default's other code, by which is measured what fine-tuning forgets, and of the clones."""
    rows = []
    for source in read_sources(Path("config/sources.tsv")):
        if source.kind == "sdist":
            rows.append({column: getattr(source, column) for column in COLUMNS})
    for clone in clones:
        language = clone.files.most_common(1)[0][0]
        cells = (clone.name, "git", location_of(clone.path.resolve()), clone.commit, language, "high", clone.licence)
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    number_equal_names(rows)
    return rows


def stages(base: FoundBase, proposal: Proposal, data: str, name: str) -> dict[str, dict]:
    """The stage `name`, laid over the default's stage `own` where that is its name, and for code its control."""
    own = {"from": "base", "data": data, **proposal.stage}
    if proposal.stage["method"] == "full" and "curve" not in own:
        own["curve"] = [0.5]  # each kept step is a whole model
    if name != "own":
        return {"own": None, name: own}
    control = {**own, "data": "other"}
    control.pop("curve", None)
    if "epochs" in control:  # as many steps, of data of another size
        control.pop("epochs")
        control["steps"] = proposal.steps
    return {"own": own, "control": control}


def languages_and_encodings(clones: list[Clone]) -> tuple[set[str], set[str]]:
    """What the filter reads for the clones and the other code, networkx: languages, and encodings that it converts."""
    languages, encodings = {"python"}, set()
    for clone in clones:
        languages.update(clone.files)
        encodings.update(clone.encodings)
    return languages, encodings


def code_settings(
    name: str, rows: list[dict[str, str]], clones: list[Clone], hold_out: dict, base: FoundBase, proposal: Proposal
) -> dict:
    """The experiment for clones."""
    languages, encodings = languages_and_encodings(clones)
    own = [row["name"] for row in rows if row["kind"] == "git"]
    filters: dict[str, Any] = {"languages": sorted(languages)}
    if encodings:
        filters["encodings"] = sorted(encodings)
    fim = 0.5 if base.infill else 0
    settings: dict[str, Any] = {
        "extends": str(DEFAULT),
        "experiment": name,
        "results": f"results/{name}",
        "sources": f"{EXPERIMENTS}/{name}.tsv",
        "corpus": {
            "filter": filters,
            "split": hold_out,
            "compose": {"own": {"sources": own, "fim_rate": fim}, "other": {"fim_rate": fim}},
        },
        "training": {"train": stages(base, proposal, "own", "own")},
        "evaluation": {"perplexity": proposal.perplexity, "gate": {"controls": {"own": "control"}}},
    }
    if base.settings:
        settings["training"] = {"base": base.settings, **settings["training"]}
    return settings


def chat_settings(name: str, dataset: dict, base: FoundBase, proposal: Proposal) -> dict:
    """The experiment for a file or folder of chats."""
    gate = {"name": "fine-tuning helps", "dataset": "chats", "model": "chat", "against": "base"}
    documents = 24 if proposal.perplexity["context"] <= 512 else 200
    settings: dict[str, Any] = {
        "extends": str(DEFAULT),
        "experiment": name,
        "results": f"results/{name}",
        "sources": None,
        "corpus": {"compose": {"own": None, "other": None, "chats": dataset}},
        "training": {"train": stages(base, proposal, "chats", "chat")},
        "evaluation": {
            "perplexity": {**proposal.perplexity, "retrieval": None, "places": None, "documents": documents},
            "qa": {"datasets": ["chats"], "documents": documents // 2, "max_new_tokens": 64},
            "gate": {"gates": [{**gate, "metric": "bits_per_byte", "below": 0}]},
        },
    }
    if base.settings or not base.template:
        chosen = dict(base.settings)
        if not base.template:
            chosen["chat_template"] = "chatml"
        settings["training"] = {"base": chosen, **settings["training"]}
    return settings


def held_out(test: str | None, files: int, rows: list[dict[str, str]], clones: list[Clone], machine: Machine) -> dict:
    """`corpus.split` for clones: a share, or the paths that `--test` names: a folder or file in one of the clones, one
    of the clones, or a pattern of paths."""
    if test is None:
        wanted = HELD_OUT_GPU if machine.gpus else HELD_OUT
        share = min(0.3 if files < 1000 else 0.1, max(0.02, round(wanted / files, 2)))
        print(f"about {round(files * share)} of {files:,} files are held out, fewer where files are alike")
        if round(files * share) < FEW:
            print(f"warning: fewer than {FEW} held-out files tell little; add repositories")
        validation = min(0.1, max(0.02, round(machine.nodes * max(machine.gpus, 1) * 4 / files, 2)))
        return {"validation": validation, "test": share}
    path = Path(test).expanduser().resolve()
    if not path.exists():
        if "*" not in test:
            raise UserError(f"--test {test}: no such file or folder; give one in a clone, or a pattern as `tests/*`")
        return {"hold_out": [test]}
    names = [row["name"] for row in rows if row["kind"] == "git"]
    for name, clone in zip(names, clones, strict=True):
        root = clone.path.resolve()
        if path.is_relative_to(root):
            inner = path.relative_to(root).as_posix()
            if inner == ".":
                return {"hold_out": [f"{name}/*"]}
            return {"hold_out": [f"{name}/{inner}/*" if path.is_dir() else f"{name}/{inner}"]}
    raise UserError(f"--test {test}: in none of the clones; move it into the folder that is given, as a clone")


def start_with_clones(
    folder: Path, name: str, experiment: Path, base: FoundBase, machine: Machine, hours: float | None, test: str | None
) -> None:
    """Write the table and the experiment for the clones in a folder, and say what was found."""
    clones, lines = look_at(folder)
    files = sum(clone.files.total() for clone in clones)
    for line in [*map(described, clones), *lines]:
        print(line)
    if files < LEAST:
        raise UserError(f"{folder}: files of code: {files}; at least {LEAST} are needed to train and to hold some out")
    rows = table_of(clones)
    split = held_out(test, files, rows, clones, machine)
    size = sum(clone.bytes.total() for clone in clones)
    tokens = round(size / BYTES_PER_TOKEN * (1 - split.get("test", 0.1)))
    proposal = propose(base, machine, hours, tokens)
    settings = code_settings(name, rows, clones, split, base, proposal)
    days = sorted(clone.day for clone in clones)
    header = (
        f"# Made by `stagecraft start`. Clones: {len(clones)}; files of code: {files:,}, {size / 1e6:.3g} MB; last"
        f" changed {days[0]} to {days[-1]}.\n# It lays over the default experiment: retrieve from this code, fine-tune"
        f" on it, both, or neither?\n# The stage {proposal.sentence}.\n"
    )
    load_experiment(settings, str(experiment))
    write_sources(rows, experiment.with_suffix(".tsv"))
    write(experiment, in_yaml(header, settings))
    print(f"stage own {proposal.sentence}")


def holds_chats(folder: Path) -> bool:
    """Whether all files of a folder are of formats that chats are read from, and it holds no repository."""
    try:
        return not clones_below(folder) and bool(files_of(folder))
    except UserError:  # another file, or none
        return False


def columns_of(path: Path) -> dict[str, str]:
    """The names of question and answer in the first record of JSON lines, where they have other names than are read."""
    file = files_of(path)[0]
    if not file.name.endswith((".jsonl", ".jsonl.gz")):
        return {}
    _, record = next(json_lines(file, keep_bad=True), (1, None))
    if not isinstance(record, dict):
        return {}
    question = next((name for name in QUESTIONS if isinstance(record.get(name), str)), None)
    answer = next((name for name in ANSWERS if isinstance(record.get(name), str)), None)
    if question and answer:
        return {"prompt": question, "completion": answer}
    return {}


def start_with_chats(
    path: Path, name: str, experiment: Path, base: FoundBase, machine: Machine, hours: float | None, test: str | None
) -> None:
    """Write the experiment for a file of chats, and say how many of its records can be read as such."""
    dataset: dict[str, Any] = {"kind": "chat", "path": str(path), **CHAT_SPLIT}
    if test is not None:
        if not Path(test).exists():
            raise UserError(f"--test {test}: no such file or folder")
        dataset["test_path"] = str(Path(test).resolve())
    chat = ChatDataset.parse(dataset, "chats")
    try:
        check_first_chats(chat)
    except BadRecord:
        dataset["columns"] = columns_of(path)
        chat = ChatDataset.parse(dataset, "chats")
        check_first_chats(chat)
        print(f"{path}: read by `columns: {json.dumps(dataset['columns'])}`")
    left_out, size = Counter(), 0
    for _, example, reason in contents(chat):
        left_out[reason] += 1
        if reason is None:
            size += sum(len(turn["content"].encode()) for turn in example["messages"])
    chats = left_out.pop(None, 0)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.most_common()) or "none"
    if not chats:
        raise UserError(f"{path}: no chat to train on, left out: {reasons}; docs/own-chats.md says what is read")
    print(f"{path}: {chats:,} chats, left out: {reasons}")
    if test is None:
        count = round(chats * CHAT_SPLIT["test"])
        if not count:
            raise UserError(f"{path}: {chats} chats leave none to score; add chats, or name a file of others by --test")
        print(f"about {count:,} of them are held out")
        if count < FEW:
            print(f"warning: fewer than {FEW} held-out chats tell little; add chats")
    proposal = propose(base, machine, hours, max(1, round(size / BYTES_PER_TOKEN)))
    header = f"# Made by `stagecraft start`: fine-tuning on the chats of {path}, scored on those that are held out.\n"
    header += f"# The stage {proposal.sentence}.\n"
    settings = chat_settings(name, dataset, base, proposal)
    load_experiment(settings, str(experiment))
    write(experiment, in_yaml(header, settings))
    print(f"stage chat {proposal.sentence}")


def write(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def update(folder: Path, experiment: Path) -> None:
    """Move an experiment's clones to their newest commits, and add those that came. Raises UserError: there is no such
    experiment, or its file no longer names its sources on a line of its own."""
    table = experiment.with_suffix(".tsv")
    if not experiment.is_file() or not table.is_file():
        raise UserError(f"--update: no {experiment} with {table} here; without --update they are made")
    clones, lines = look_at(folder)
    for line in [*map(described, clones), *lines]:
        print(line)
    before = {row.location: row for row in read_sources(table)}
    rows = [{column: getattr(source, column) for column in COLUMNS} for source in before.values()]
    for row in table_of(clones):
        known = before.get(row["location"])
        if known and row["kind"] == "git":
            next(old for old in rows if old["name"] == known.name)["pin"] = row["pin"]
            if known.pin != row["pin"]:
                print(f"{known.name}: {known.pin[:12]} → {row['pin'][:12]}")
        elif not known:
            rows.append(row)
            print(f"{row['name']}: added")
    number_equal_names(rows)
    text, names = experiment.read_text(encoding="utf-8"), [row["name"] for row in rows if row["kind"] == "git"]
    listed = re.compile(r"(own:\s*\{?\s*sources: )\[[^\]]*\]")
    if not listed.search(text):
        raise UserError(f"{experiment}: no line `own: {{sources: [...]}}`, where new clones would be added")
    in_flow = yaml.safe_dump(names, default_flow_style=True, width=2**31).strip()  # a name of digits is quoted
    text = listed.sub(rf"\g<1>{in_flow}", text)
    filters = read_yaml(experiment)["corpus"]["filter"]
    languages, encodings = languages_and_encodings(clones)
    languages.update(filters.get("languages", []))
    encodings.update(filters.get("encodings", []))
    text = re.sub(r"languages: \[[^\]]*\]", f"languages: [{', '.join(sorted(languages))}]", text)
    converted = f"encodings: [{', '.join(sorted(encodings))}]"
    if "encodings" in filters:
        text = re.sub(r"encodings: \[[^\]]*\]", converted, text)
    elif encodings:  # on a line of its own, where languages have one
        text = re.sub(r"^( *)(languages: \[[^\]]*\])$", rf"\1\2\n\1{converted}", text, flags=re.MULTILINE)
    write_sources(rows, table)
    write(experiment, text)
    print(f"written: {table}, {experiment}")


def start(
    given: Path,
    profile: str | None,
    base: str | None = None,
    hours: str | None = None,
    name: str | None = None,
    test: str | None = None,
    newer: bool = False,
) -> None:
    """Write what an experiment needs, print its plan and the commands that run and use it.

    Args:
        hours: the time as text, as `8h`.
        newer: whether to update an experiment that is there.

    Raises:
        UserError: there is nothing to train on, nothing fits, or the experiment's file is there already.
    """
    if not given.is_file() and not given.is_dir():
        raise UserError(f"{given}: no such file or folder")
    if not os.access(given, os.R_OK):
        raise UserError(f"{given}: it may not be read by this user")
    stem = name or given.resolve().name.partition(".")[0] or given.resolve().name
    name = re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-")
    if name in ("", DEFAULT.stem):
        name = "mine"
    experiment = EXPERIMENTS / f"{name}.yaml"
    if newer:
        update(given, experiment)
        print_next(profile or "profiles/local", name)
        return
    for path in (experiment, experiment.with_suffix(".tsv")):
        if path.exists():
            raise UserError(
                f"{path}: already there; --update moves it to the newest commits, --name NAME makes another"
            )
    time = hours_of(hours) if hours else None
    profile = chosen_profile(profile)
    machine, found = load_machine(machine_of(profile)), found_base(base)
    if not machine.gpus and memory() < MEMORY:
        print(f"warning: this machine has {memory() / 2**30:.1f} GiB; the default base needs {MEMORY >> 30}")
    if given.is_file() or holds_chats(given):
        start_with_chats(given.resolve(), name, experiment, found, machine, time, test)
    else:
        start_with_clones(given, name, experiment, found, machine, time, test)
    print(f"written: {experiment}\n")
    print_plans(profile, experiment, None)
    print_next(profile, name)


def print_next(profile: str, name: str) -> None:
    """The commands that run the experiment and use its results."""
    stages_of = read_yaml(EXPERIMENTS / f"{name}.yaml")["training"]["train"]
    stage = next(stage for stage, settings in stages_of.items() if settings)
    print("\nthen, to try it, to compare two runs, and to give the model away:\n")
    print(f"    stagecraft try {stage} --experiment {name}")
    print(f"    stagecraft compare results/{name} OTHER_RESULTS")
    print(f"    stagecraft release {stage} --experiment {name}")
    command = (
        f"snakemake --profile {Path(profile).name} results/{name}/eval.json --configfile {EXPERIMENTS}/{name}.yaml"
    )
    print(f"\nnext:\n\n    {command}")
