"""Keep the results of jobs whose code changed, where their owner says that the change makes no other result.

    stagecraft accept train.sft --reason "renamed a helper"    # also filter.tokio, perplexity.sft, or a rule: filter

Nothing is run and nothing is compared: the provenance of the results then names today's code and the reason, which
eval.json and the report show. A job whose settings, command or inputs changed too is refused.
"""

import ast
import datetime
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.shard_reuse import MADE_FROM, folders_in
from scripts.experiment.causes import param_changes
from scripts.experiment.layout import Layout
from scripts.hosts.job_graph import dry_run, in_order, record_of
from scripts.hosts.provenance_records import ProvenanceRecords


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
