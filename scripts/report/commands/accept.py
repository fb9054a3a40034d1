"""Keep a result after a refactoring, if a replay with the old and the new code gives the same output.

    stagecraft accept train.sft --reason "renamed a helper"    # also filter.tokio, perplexity.sft, or a rule: filter

A sample of the job is run with the code that made its output (the commit is in the record of the code) and with
today's, each in a git worktree of its own. Where both make the same, to the bit, the output is recorded as made by
today's code, and accepted.json beside it keeps the evidence; else this says what differed, and the job will run.
"""

import datetime
import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.shard_reuse import MADE_FROM, folders_in
from scripts.experiment.causes import code_changes, param_changes
from scripts.experiment.code_records import CodeRecord, clean_commit, read_code, units_of, write_code
from scripts.experiment.fingerprint import fingerprint
from scripts.experiment.layout import Layout
from scripts.experiment.replays.evidence import NAME, Evidence, add_evidence, content_of
from scripts.experiment.replays.replay import comparable, differing, digest_of, git, replay, run_in, worktree
from scripts.experiment.replays.samples import Sample, sample_of
from scripts.hosts.job_graph import dry_run, in_order, record_of
from scripts.hosts.provenance_records import ProvenanceRecords

LISTED = 10
PACKAGES = ("torch", "transformers", "numpy", "tokenizers")


def changed_code(job, records: ProvenanceRecords, codes: Path) -> tuple[str, str]:
    """(fingerprint that made a job's outputs, today's), where nothing else of the job changed.

    Args:
        codes: the folder of the records of code.

    Raises:
        UserError: something else changed too, or the outputs are not as the job left them.
    """
    name, module = record_of(job).title, record_of(job).module
    for path in job.output:
        if not Path(path).is_file():
            raise UserError(f"{name}: {path} is not made yet: nothing to accept")
        if wrong := records.refusal(path):
            raise UserError(f"{name}: {wrong}; it will run")
    made, present = records.provenance.of(str(job.output[0])), records.params_of(job)
    if made.command != records._code(job.rule):
        raise UserError(f"{name}: its command in rules/ changed too; it will run")
    new, old = fingerprint(module), made.code
    if old is None:
        raise UserError(f"{name}: its provenance names no code; it will run")
    if old == new:
        raise UserError(f"{name}: its code did not change: nothing to accept")
    other_changes = param_changes(made.params, present | {"code": repr(old)}, module, codes)
    if other_changes:
        raise UserError(f"{name}: more than code changed: {other_changes[0]}; it will run")
    return old, new


def commit_of(code: str, name: str, codes: Path) -> str:
    """The commit that holds the code of a fingerprint.

    Raises:
        UserError: none is recorded, or it holds other code.
    """
    record = read_code(code, codes)
    if record is None or not record.commit:
        raise UserError(f"{name}: the code that made it was not committed, so it cannot be replayed; it will run")
    return record.commit


def check_code(folder: Path, module: str, code: str, name: str) -> None:
    """Raises UserError: a worktree's code is not that of the fingerprint."""
    done = run_in(folder, f"python -m scripts.experiment.fingerprint {module}")
    if done.returncode or done.stdout.strip() != code:
        raise UserError(f"{name}: the code of the recorded commit is not the code that made it; it will run")


def accept_job(
    job, reason: str, records: ProvenanceRecords, root: Path, today: str, report: Callable[[str], None]
) -> None:
    """Replay a sample of a job with both codes, and record its outputs as made by today's code where they agree.

    Raises:
        UserError: they do not, or the job cannot be replayed.
    """
    name, module = record_of(job).title, record_of(job).module
    codes = Layout(Path(job.dag.workflow.globals["EXPERIMENT"].results)).code_records
    old, new = changed_code(job, records, codes)
    settings = json.loads(job.params.get("settings") or "{}") if isinstance(job.params.get("settings"), str) else {}
    outputs = [str(path) for path in job.output]
    sample = sample_of(job.rule.name, job.shellcmd, [str(path) for path in job.input], outputs, settings)
    commit = commit_of(old, name, codes)
    report(f"{name}: replays {sample.text}, with the code of {commit[:12]} and of {today[:12]}")
    replayed = []
    for code, at in ((old, commit), (new, today)):
        with worktree(at, root) as folder:
            check_code(folder, module, code, name)
            try:
                replayed.append(replay(sample, folder, root))
            except UserError as error:
                raise UserError(f"{name}: with the code of {at[:12]}: {error}; it will run") from error
    refuse_differences(name, sample, replayed, root)
    evidence = Evidence(
        job=name,
        reason=reason,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        old=old,
        new=new,
        old_commit=commit,
        new_commit=today,
        changed=code_changes(old, new, module, codes),
        sample=sample.text,
        unseen=sample.unseen,
        compared=digest_of(replayed[1]),
        content=content_of(Path(outputs[0]).parent) or "",
        versions={package: importlib.metadata.version(package) for package in PACKAGES},
    )
    add_evidence(Path(outputs[0]).parent, evidence)
    write_code(new, CodeRecord(module, today, units_of(module)), codes)
    if job.rule.name == "filter":
        note_in_folders(Path(outputs[0]), old, new)
    records.accept_code(job, new)
    report(f"{name}: accepted, {len(sample.outputs)} files equal; evidence in {Path(outputs[0]).parent / NAME}")


def note_in_folders(manifest: Path, old: str, new: str) -> None:
    """Record the folders that a shard's manifest lists as made by today's code, else a changed pin made all again."""
    for folder in folders_in(manifest):
        origin = read_json(folder / MADE_FROM)
        if origin["code"] == old:
            write_json(folder / MADE_FROM, {**origin, "code": new})


def refuse_differences(name: str, sample: Sample, replayed: list[dict], root: Path) -> None:
    """Raises UserError: the replays differ, or differ from the outputs that lie here; the lines say where."""
    lines = differing(*replayed)
    if lines:
        raise UserError(f"{name}: refused, it will run; the outputs of the two versions differ in {shorten(lines)}")
    if sample.whole_job:
        stored = {path: comparable(root / path) for path in sample.outputs}
        if lines := differing(stored, replayed[1]):
            raise UserError(
                f"{name}: refused, it will run; both versions now give another output than the stored"
                f" one (other packages?): {shorten(lines)}"
            )


def shorten(lines: list[str]) -> str:
    more = f"; and {len(lines) - LISTED} more" if len(lines) > LISTED else ""
    return "; ".join(lines[:LISTED]) + more


def chosen_jobs(workflow, names: list[str]) -> list:
    """The jobs that are named: `train.sft`, or all of a rule.

    Raises:
        UserError: there is none.
    """
    jobs = {record.title.replace(" ", "."): job for job, record in in_order(workflow.dag).items()}
    chosen = []
    for wanted in names:
        matching = [job for name, job in jobs.items() if wanted in (name, name.split(".")[0])]
        needed = [job for job in matching if workflow.dag.needrun(job)]
        if not matching:
            raise UserError(f"{wanted}: no such job; known: {', '.join(sorted(jobs))}")
        if not needed:
            raise UserError(f"{wanted}: it would not run: nothing to accept")
        chosen += needed
    return chosen


def accept(profile: str, configfile: Path | None, names: list[str], reason: str) -> None:
    """Accept each of these jobs, or say why not.

    Args:
        names: jobs as `train.sft`, or rules for all of their jobs.

    Raises:
        UserError: one was not accepted.
    """
    if not reason.strip():
        raise UserError("--reason: say why this change of the code does not change results")
    root = Path.cwd()
    if git("status", "--porcelain", "--untracked-files=no", root=root) or not (today := clean_commit()):
        raise UserError("git: there are changes that are not committed: commit them before anything is accepted")
    workflow = dry_run(profile, configfile)
    records, failed = workflow.persistence, 0
    for job in chosen_jobs(workflow, names):
        try:
            accept_job(job, reason.strip(), records, root, today, lambda line: print(line, flush=True))
        except UserError as error:
            failed += 1
            print(error, flush=True)
    if failed:
        raise UserError(f"{failed} not accepted")
