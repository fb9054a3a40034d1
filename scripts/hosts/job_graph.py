"""The jobs of an experiment, as Snakemake knows them: `stagecraft status`, `why` and `accept` read them here.

    results/work/jobs.json
    {"experiment": "9a41…", "jobs": [{"rule": "pack", "area": "tokens", "name": "code 512", "inputs": […], …}, …]}

Snakemake's main process writes the file as soon as it has built the graph of the whole experiment, in a run and in a
dry run. `experiment` is a hash of settings, sources and code: a file of others is not used, a dry run gives the jobs.
"""

import contextlib
import hashlib
import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json_or_empty, write_json
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST, Layout
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.optimizers import STAGE
from scripts.experiment.reruns.fingerprint import ROOT, path_of
from scripts.experiment.reruns.kept_fingerprints import fingerprint, stage_fingerprint, tree_hash
from scripts.experiment.reruns.provenance import Index
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import Record, to_json
from scripts.hosts import start
from scripts.hosts.invocation import INNER, Invocation

PIN = re.compile(r"-[0-9a-f]{12}$")  # in the name of a raw archive


@dataclass(frozen=True)
class Job:
    """A job that makes files.

    Attributes:
        rule: the name of its rule.
        area: the folder of the rule's script, as `corpus`.
        name: what its wildcards say, a raw archive without its pin: `tokio`, `code 512`, or empty.
        inputs: the files that it reads.
        outputs: the files that it declares.
        log: its log file.
    """

    rule: str
    area: str
    name: str
    inputs: list[str]
    outputs: list[str]
    log: str

    @property
    def title(self) -> str:
        """`filter tokio`, `pack code 512`, `gate`."""
        return f"{self.rule} {self.name}".strip()

    @property
    def module(self) -> str:
        """The module that it runs."""
        return module_of(self.area, self.rule)

    @property
    def last_output(self) -> Path:
        """The file that exists when it is done: the manifest, which is written last, or else the first output."""
        manifests = [path for path in self.outputs if Path(path).name == MANIFEST]
        return Path([*manifests, *self.outputs][0])


def module_of(area: str, rule: str) -> str:
    """The module that a rule runs: a suite is a rule, too."""
    suite = f"scripts.{area}.suites.{rule}"
    if path_of(suite):
        return suite
    return f"scripts.{area}.{rule}"


def script_of(rule) -> tuple[str, str]:
    """(area, name) of the script that one of Snakemake's rules runs."""
    return Path(rule.snakefile).stem, rule.name


def rule_codes(rules, optimizers: list[str]) -> dict[str, str]:
    """area.rule → fingerprint of its code, of those of these rules whose results eval.json needs. `rules`: Snakemake's;
    `optimizers`: those of the stages."""
    codes = {}
    for area, name in [script_of(rule) for rule in rules if rule.name != "plan"]:
        module = module_of(area, name)
        if module == STAGE:
            codes[f"{area}.{name}"] = stage_fingerprint(*optimizers)
        else:
            codes[f"{area}.{name}"] = fingerprint(module)
    return codes


def record_of(job) -> Job:
    """The record of one of Snakemake's jobs."""
    area, rule = script_of(job.rule)
    return Job(
        rule=rule,
        area=area,
        name=" ".join(PIN.sub("", str(value)) for value in job.wildcards_dict.values()),
        inputs=list(map(str, job.input)),
        outputs=list(map(str, job.output)),
        log=str(job.log[0]) if job.log else "",
    )


def in_order(dag) -> dict:
    """Snakemake's job → its record, of all jobs that make files; each job after those that it depends on."""
    records = {job: record_of(job) for job in dag.jobs}
    ordered = {}

    def visit(job) -> None:
        if job not in ordered:
            ordered[job] = records[job]
            for before in sorted(dag.dependencies[job], key=lambda other: records[other].title):
                visit(before)
            ordered[job] = ordered.pop(job)  # behind them

    for job in sorted(records, key=lambda other: records[other].title):
        visit(job)
    return {job: record for job, record in ordered.items() if record.outputs}


def jobs_of(workflow) -> list[Job]:
    """The jobs of a workflow whose graph is built, rule by rule as the files in rules/ define them."""
    numbers = {rule.name: number for number, rule in enumerate(workflow.rules)}
    ordered = in_order(workflow.dag)
    return [ordered[job] for job in sorted(ordered, key=lambda job: numbers[job.rule.name])]


def key_of(experiment: Experiment, sources: Iterable[Record]) -> str:
    """A hash of all that decides which jobs there are: settings, sources, the rules and the scripts that they use."""
    rules = [ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk"))]
    content = [to_json(experiment), *(source.model_dump_json() for source in sources)]
    content += [tree_hash(ROOT), *(path.read_text() for path in rules)]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()


def write_when_built(workflow) -> None:
    """Let Snakemake write the jobs as soon as it knows them; those of a part of the experiment are not written."""
    build = workflow._build_dag

    def build_and_write() -> None:
        build()
        jobs = jobs_of(workflow)
        made = set()
        for job in jobs:
            made.update(job.outputs)
        if made.issuperset(map(str, workflow.get_rule("all").input)):
            experiment, sources = workflow.globals["EXPERIMENT"], workflow.globals["SOURCES"]
            with contextlib.suppress(OSError, UserError):  # as in a dry run on results that one may only read
                write_jobs(jobs, key_of(experiment, sources.values()), Path(experiment.results))

    workflow._build_dag = build_and_write


def write_jobs(jobs: list[Job], key: str, results: Path) -> None:
    write_json(Layout(results).jobs, {"experiment": key, "jobs": jobs})


def read_jobs(key: str, results: Path) -> list[Job] | None:
    """The jobs that were written for the experiment with this key; None if there are none."""
    record = read_json_or_empty(Layout(results).jobs)
    if record.get("experiment") == key:
        return [Job(**job) for job in record["jobs"]]
    return None


def dry_run(profile: str, *configfiles: Path | None):
    """The workflow after `snakemake -n` in this process, its jobs decided.

    Args:
        configfiles: the experiment's file, and files whose keys replace its own; None for what the profile names.

    Raises:
        UserError: there is no such experiment file, or Snakemake refused; then the line is its own.
    """
    from snakemake.cli import args_to_api, parse_args

    paths = [path for path in configfiles if path]
    for path in paths:
        read_yaml(path)  # whose error is one line; Snakemake's is not

    words = ["--profile", profile, *(["--configfile", *map(str, paths)] if paths else [])]
    sys.argv = ["snakemake", "-n", "--quiet", "rules", "progress", *words]  # ends before jobs count as done
    logging.disable(logging.INFO)
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        try:
            options, args = parse_args(sys.argv[1:])
            succeeded = args_to_api(args, options)
        except SystemExit as end:  # of the rules, with one line
            raise UserError(str(end.code).removeprefix("error: ")) from None
    logging.disable(logging.NOTSET)
    if not succeeded:
        raise UserError(f"snakemake {' '.join(sys.argv[1:])}: failed: {printed.getvalue().strip() or 'see above'}")
    return start.workflows[-1]


def lost_files(results: Path) -> dict[str, str]:
    """The missing files of jobs whose manifest is there, each with the target that makes it again.

    That is the file itself, or the manifest where the job's rule declares nothing else, as that of a shard. A folder
    without a manifest was never made, or deleted as a whole.
    """
    lost = {}
    for made in Index((str(results),)).jobs.values():
        manifests = [path for path in made.outputs if Path(path).name == MANIFEST and Path(path).is_file()]
        if manifests:
            missing = [path for path in made.files if not Path(path).is_file()]
            lost |= {path: path if path in made.outputs else manifests[0] for path in missing}
    return lost


def run_inner(*words: str, **options) -> int:
    """The exit code of a Snakemake that leaves what the one that was called does before its jobs."""
    command = [sys.executable, "-m", "snakemake", *words]
    return subprocess.run(command, env={**os.environ, INNER: "1"}, check=False, **options).returncode


def jobs_of_experiment(view: ExperimentView, call: Invocation) -> list[Job]:
    """The jobs of the whole experiment, of which a dry run tells where none was written."""
    key, results = key_of(view.experiment, view.sources.values()), view.layout.results
    jobs = read_jobs(key, results)
    if jobs is None:
        run_inner(
            str(view.layout.evaluation), "-n", *call.options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        jobs = read_jobs(key, results)
    return jobs or []  # where it failed, the Snakemake that was called says why


def make_lost(view: ExperimentView, call: Invocation) -> None:
    """Make the lost files of this experiment's data again, by a Snakemake with the options of this one.

    In a dry run they are only named. Models are trained again only when a job needs them.

    Raises:
        UserError: they could not be made.
    """
    if call.inner or not call.remakes:
        return
    lost = lost_files(view.layout.results)
    if not lost:
        return
    data = []
    for job in jobs_of_experiment(view, call):
        if job.area != "training":
            data += job.outputs
    targets = sorted({*lost.values()}.intersection(data))
    files = sorted(path for path, target in lost.items() if target in targets)
    if not files:
        return
    first = f"{files[0]}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"
    if call.dry_run:
        print(f"missing: {first}; a run makes them again first, and what follows only if they changed", file=sys.stderr)
        return
    print(f"missing, made again first: {first}", file=sys.stderr)
    forced = [target for target in targets if Path(target).is_file()]  # shards
    if run_inner(*targets, *call.options, *(["--forcerun", *forced] if forced else [])):
        raise UserError(f"{first}: missing, and could not be made again; the lines above say why")
