"""Say why jobs would run: for each one that `snakemake -n` names, the first cause.

    stagecraft why --profile local
    stagecraft why --experiment config/mine.yaml

A job's provenance tells its settings, its code and its inputs when it last ran
(scripts/experiment/reruns/provenance.py). Jobs with the same cause share a line; a job that only follows another one
names that one. It runs nothing.
"""

import ast
import datetime
import re
from collections import Counter
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.manifest import MADE_FROM, folders_in
from scripts.experiment.layout import Layout
from scripts.experiment.reruns.causes import param_changes
from scripts.hosts.job_graph import dry_run, in_order, record_of
from scripts.hosts.provenance_records import ProvenanceRecords

LISTED = 4  # jobs that are named in a line; of more, their number by rule


def short(path: str, root: str) -> str:
    """An input's path below the results root, without the area's folders that say nothing."""
    return re.sub(rf"^{re.escape(root)}/(corpus|tokens|training|evaluation)/", "", path)


def own_causes(job, dag, records: ProvenanceRecords, root: str) -> list[str]:
    """The causes of a job's own, the first one first; none if it runs only because a job before it runs."""
    reason, causes = dag.reason(job), []
    output = next((path for path in job.output if records.metadata(path)), None)
    if reason.forced:
        causes.append("it was asked for")
    if reason.incomplete_output:
        causes.append("it was interrupted")
    missing = sorted(map(str, reason.missing_output or []))
    if missing:
        existing = []
        if output:
            existing = [path for path in job.output if path.exists_local()]
        causes.append(f"{missing[0]} is missing" if existing else "not made yet")
    if output and not (missing and not existing):
        wrong = records.refusal(output)
        if wrong:
            return [*causes, wrong]
        made = records.provenance.of(str(output))
        module, codes = record_of(job).module, Layout(Path(root)).code_records
        causes += param_changes(made.params, records.params_of(job), module, codes)
        if reason.code_changed:
            causes.append("its command in rules/ changed")
        if reason.software_stack_changed:
            causes.append("its environment file changed")
        if reason.input_changed:
            old, new, read = set(records.metadata(output).input), set(map(str, job.input)), set(made.inputs)
            causes += [f"input {short(path, root)} changed" for path in sorted((new - old) & read)]
            causes += [f"input {short(path, root)} is new" for path in sorted(new - read)]
            causes += [f"input {short(path, root)} is gone" for path in sorted(old - new)]
        made_now = set(map(str, reason.updated_input_run or []))
        changed = sorted(set(map(str, reason.updated_input or [])) - made_now)
        causes += [f"input {short(path, root)} changed" for path in changed]
    return causes


def explain(workflow) -> dict[str, list[str]]:
    """cause → names of the jobs that it makes run, in the order of the run."""
    dag, causes, origins, further = workflow.dag, {}, {}, Counter()
    root = workflow.globals["EXPERIMENT"].results
    for job, record in in_order(dag).items():
        if not dag.needrun(job):
            continue
        job_causes = own_causes(job, dag, workflow.persistence, root)
        before = sorted(set().union(*(origins.get(other, []) for other in dag.dependencies[job])))
        repeats = record.rule == "gate" and before  # eval.json names all settings, so it repeats the others
        if job_causes and not repeats:
            cause, origins[job] = job_causes[0], [record.title]
            further[cause] = max(further[cause], len(job_causes) - 1)
        else:
            cause, origins[job] = f"because of {names_or_counts(before)}", before
        causes.setdefault(cause, []).append(record.title)
    return {
        f"{cause}, and {further[cause]} more" if further[cause] else cause: names for cause, names in causes.items()
    }


def names_or_counts(names: list[str]) -> str:
    """`filter tokio, filter clap`; of many their number by rule."""
    if len(names) <= LISTED:
        return ", ".join(names)
    rules = Counter(name.split()[0] for name in names)
    return ", ".join(f"{count} × {rule}" if count > 1 else rule for rule, count in rules.items())


def print_causes(profile: str, configfile: Path | None) -> None:
    """Print a line for each cause of jobs that would run."""
    causes = explain(dry_run(profile, configfile))
    lines = [f"{names_or_counts(names)}: {cause}" for cause, names in causes.items()]
    print("\n".join(lines) or "nothing would run")


def changed_code(job, records: ProvenanceRecords, codes: Path) -> tuple[str, str]:
    """(fingerprint of the code that made a job's outputs, today's), where nothing else of the job changed. `codes`: the
    folder of the records of code."""
    record = record_of(job)
    name, module = record.title, record.module
    for path in job.output:
        if not Path(path).is_file():
            raise UserError(f"{name}: {path} is not made yet: nothing to accept")
        wrong = records.refusal(path)
        if wrong:
            raise UserError(f"{name}: {wrong}; it will run")
    made = records.provenance.of(str(job.output[0]))
    present = records.params_of(job)
    old, new = made.code, ast.literal_eval(present["code"])
    if old == new:
        raise UserError(f"{name}: its code did not change: nothing to accept")
    other_changes = param_changes(made.params, present | {"code": repr(old)}, module, codes)
    if made.command != records._code(job.rule):
        other_changes.append("its command in rules/")
    if other_changes:
        raise UserError(f"{name}: more than code changed: {other_changes[0]}; it will run")
    return old, new


def accept(profile: str, configfile: Path | None, names: list[str], reason: str) -> None:
    """Accept each of these jobs, or say why not.

    Args:
        names: jobs as `train.sft`, or rules for all of their jobs.

    Raises:
        UserError: one was not accepted.
    """
    if not reason.strip():
        raise UserError("--reason: say why this change of the code does not change results")
    workflow = dry_run(profile, configfile)
    records, failed = workflow.persistence, 0
    codes = Layout(Path(workflow.globals["EXPERIMENT"].results)).code_records
    jobs = {record.title.replace(" ", "."): job for job, record in in_order(workflow.dag).items()}
    for wanted in names:
        matching = [name for name in jobs if wanted in (name, name.split(".")[0])]
        if not matching:
            rules = sorted({name.partition(".")[0] for name in jobs})
            raise UserError(f"{wanted}: no such rule, and no job as `train.sft`; rules: {', '.join(rules)}")
        for name in matching:
            try:
                old, new = changed_code(jobs[name], records, codes)
            except UserError as error:
                failed += 1
                print(error)
                continue
            today = datetime.datetime.now(datetime.UTC).date().isoformat()
            if jobs[name].rule.name == "filter":
                rename_code(Path(jobs[name].output[0]), old, new)
            records.accept_code(jobs[name], new, {"reason": reason.strip(), "date": today, "old": old, "new": new})
            print(f"{name}: accepted as made by today's code")
    if failed:
        raise UserError(f"{failed} not accepted")


def rename_code(manifest: Path, old: str, new: str) -> None:
    """Let the folders of the sources that a shard lists name today's code, else a changed pin would make all again."""
    for folder in folders_in(manifest):
        origin = read_json(folder / MADE_FROM)
        if origin["code"] == old:
            write_json(folder / MADE_FROM, {**origin, "code": new})
