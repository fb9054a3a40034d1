"""Snakemake's records of finished jobs are the provenance files beside the results, and nothing in `.snakemake`.

Snakemake asks for the record of an output to decide whether its job must run again: it compares params, command and
inputs. It gets what the provenance file says, after the files were compared with their hashes. An output that exists
without a valid provenance gets a record that matches no rule, so its job runs again, and all that depends on it.
"""

import atexit
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import snakemake
from snakemake.exceptions import WorkflowError
from snakemake.persistence import RECORD_FORMAT_VERSION, MetadataRecord
from snakemake.persistence.file import FilePersistence
from snakemake_interface_executor_plugins.settings import ExecMode

from scripts.common.disk import existing
from scripts.common.errors import UserError
from scripts.common.known_hashes import KnownHashes
from scripts.experiment.reruns.provenance import (
    Index,
    Provenance,
    changed_inputs,
    files_beside,
    first_difference,
    provenance_file,
    repair_command,
    tool_versions,
    write_provenance,
)

CACHE = Path(".snakemake/iocache")  # which Snakemake writes in a dry run, too
FORMAT = 6  # of Snakemake's records, for which this class was written
UNTRUSTED = "(not what was made)"
LEAST_HASHED = 1 << 30  # bytes, a second or two of work, after which the hashes are kept while records are read
PRINTED = 5  # results that are named, each with what is wrong with it


class ProvenanceRecords(FilePersistence):
    """Snakemake's store of records, kept in provenance files; locks and marks of unfinished outputs stay in place."""

    def __init__(self, *arguments, **options):
        self.index: Index | None = None
        self.hashes = KnownHashes()
        atexit.register(self.hashes.save)
        self.records: dict[str, MetadataRecord | None] = {}
        self.wrong: dict[str, str] = {}  # output → why it is not trusted
        self.refused: set[str] = set()  # first outputs of the jobs that were named
        if options.get("warn_only") and not os.access(existing(CACHE), os.W_OK):
            # a dry run, as in a colleague's folder that one may only read
            self.elsewhere = tempfile.TemporaryDirectory(prefix="stagecraft-")
            options["path"] = Path(self.elsewhere.name)
        try:
            super().__init__(*arguments, **options)
        except OSError as error:
            name = os.path.relpath(error.filename or ".snakemake")
            raise WorkflowError(f"{name}: {error.strerror}: Snakemake keeps its locks in this folder") from None

    @contextmanager
    def lock_warn_only(self) -> Iterator[None]:
        """A dry run beside a run: Snakemake would call it an error, and show nothing wrong."""
        if self.locked:
            print("note: another Snakemake works in this folder; what it makes now is not done yet", file=sys.stderr)
        yield

    @property
    def provenance(self) -> Index:
        """All provenance files, read at the first question."""
        if self.index is None:
            self.index = Index()
        return self.index

    def started(self, job, external_jobid: str | None = None) -> None:
        """Delete the provenance of what a job will make again."""
        for output in job.output[:1]:
            provenance_file(output).unlink(missing_ok=True)
        for output in job.output:
            self.forget(str(self._get_key(output)))
        super().started(job, external_jobid)

    async def finished(self, job) -> None:
        """Write the provenance of a job's outputs.

        A job on another host does so too, as soon as it has ended: the Snakemake that sent it may be gone by then.
        """
        self._clear_cache()
        settings = self.dag.workflow.execution_settings
        made_all = job.output and all(Path(output).is_file() for output in job.output)  # a failed job comes here too
        if made_all and settings.keep_metadata and self.dag.workflow.exec_mode != ExecMode.SUBPROCESS:
            made = self.provenance_of(job)
            path = write_provenance(made)
            if self.index:
                self.index.add(path, made)
            self.hashes.save()
        for output in job.output:
            self._unmark_incomplete(self._get_key(output))
            self.forget(str(self._get_key(output)))

    def provenance_of(self, job) -> Provenance:
        """How a job that has just ended made its outputs."""
        outputs = [str(self._get_key(output)) for output in job.output]
        return Provenance(
            rule=job.rule.name,
            command=self._code(job.rule),
            params=self.params_of(job),
            log=list(map(str, self._log(job))),
            software=self._software_stack_hash(job),
            inputs=self.hashes_of(map(str, self._input(job))),
            outputs=self.hashes_of(outputs),
            beside=self.hashes_of(files_beside(outputs)),
            tools=tool_versions(),
            started=self._get_recorded_starttime(outputs[0]) or time.time(),
            ended=time.time(),
        )

    def _input(self, job) -> list[str]:
        """The inputs as Snakemake compares them with a record's, which names each file once."""
        return sorted(set(super()._input(job)))

    def hashes_of(self, names: Iterable[str]) -> dict[str, str]:
        """name → sha256 of those of the files that exist."""
        return {name: self.hashes.sha256(Path(name)) for name in names if Path(name).is_file()}

    def accept_code(self, job, code: str, acceptance: dict[str, str]) -> None:
        """Note in a job's provenance that its outputs are those that this code makes, and who said so why."""
        made = self.provenance.of(str(job.output[0]))
        beside = self.hashes_of(files_beside(list(made.outputs)))
        params = made.params | {"code": repr(code)}
        accepted = replace(made, params=params, beside=beside, accepted=[*made.accepted, acceptance])
        self.provenance.add(write_provenance(accepted), accepted)
        self.hashes.save()

    def params_of(self, job) -> dict[str, str]:
        """The params of a job by name, each as `repr` of its value; those that follow from paths are left out."""
        derived = set(map(id, job.params)) - set(map(id, job.non_derived_params))
        params = {}
        for number, (name, value) in enumerate(job.params._allitems()):
            text = self._serialize_param(value)
            if id(value) not in derived and isinstance(text, str):
                params[name or str(number)] = text
        return params

    def refusal(self, output) -> str | None:
        """Why an output that exists is not what its job made; None where it is."""
        self._read_record(self._get_key(output))
        return self.wrong.get(str(output))

    def _read_record(self, key: str) -> MetadataRecord | None:
        if key not in self.records:
            self.records[key] = self.record_of(key)
            self.hashes.save(LEAST_HASHED)
        return self.records[key]

    def record_of(self, key: str) -> MetadataRecord | None:
        """The record of an output; None where it does not exist, one that matches no rule where it is not trusted."""
        path = Path(key)
        if not path.exists():
            return None
        made = self.provenance.of(key) or self.provenance.look_again(key)
        wrong = ""
        if made is None:
            wrong = self.provenance.damaged.get(provenance_file(key), f"{key}: it has no provenance")
        elif difference := first_difference(made, self.hashes):
            wrong = str(difference)
            if repair := repair_command([difference.file]):
                wrong += f"; to download the published file instead: `{repair}`"

        first = key
        facts = {"rule": None, "log": [], "software_stack_hash": "", "starttime": None, "endtime": None}
        facts |= {"code": UNTRUSTED, "params": [], "input": [], "input_checksums": {}}
        if made:
            first = next(iter(made.outputs))
            facts |= {"rule": made.rule, "log": made.log, "software_stack_hash": made.software}
            facts |= {"starttime": made.started, "endtime": made.ended}
        if wrong:
            self.wrong[str(key)] = wrong
            self.refuse(key, facts["rule"], wrong)
        else:
            # Snakemake compares contents only of inputs that are newer than the output, and a copy has any times: an
            # input with another content is left out here, so the set of inputs differs and the job runs
            unchanged = sorted(set(made.inputs) - set(changed_inputs(made, self.hashes)))
            checksums = {name: f"sha256:{digest}" for name, digest in made.inputs.items()}
            facts |= {"code": made.command, "params": sorted(made.params.values())}
            facts |= {"input": unchanged, "input_checksums": checksums}
        job_hash = int.from_bytes(first.encode()[-7:])
        return MetadataRecord(**facts, record_format_version=FORMAT, job_hash=job_hash, incomplete=False)

    def refuse(self, key: str, rule: str | None, wrong: str) -> None:
        """Say once per job, of a few jobs, why it will run again."""
        first = next(iter(self.provenance.of(key).outputs)) if rule else key
        if first in self.refused or not self.dag.workflow.is_main_process:
            return
        self.refused.add(first)
        if len(self.refused) <= PRINTED:
            print(f"{rule or first}: not done: {wrong}", file=sys.stderr)
        elif len(self.refused) == PRINTED + 1:
            print("further results that are not done are not listed", file=sys.stderr)

    def _write_record(self, key: str, record: MetadataRecord) -> None:
        raise AssertionError(f"{key}: provenance is written when a job has finished, for all of its outputs")

    def _delete_record(self, key: str) -> bool:
        self.forget(key)
        known = self.provenance.of(key) is not None
        self.provenance.drop(key)
        return known

    def forget(self, key: str) -> None:
        """Forget what was found out about an output, which is another now."""
        self.records.pop(key, None)
        self.wrong.pop(key, None)


def keep_records_in_provenance(workflow) -> None:
    """Let the Snakemake of this process keep its records in provenance files; call it while the rules are read.

    Raises:
        UserError: this Snakemake has another form of records than this code was written for, or was told to keep them
            in a database.
    """
    if workflow.workflow_settings.persistence_backend.name != "FILE":
        raise UserError("--persistence-backend: records of jobs lie beside the results; drop the option")
    if RECORD_FORMAT_VERSION != FORMAT:
        raise UserError(
            f"Snakemake {snakemake.__version__}: its records have form {RECORD_FORMAT_VERSION}, results are recorded in"
            f" form {FORMAT}; install the versions of requirements.lock"
        )
    from snakemake import workflow as store_chooser  # it cannot be the first of Snakemake's modules to be imported

    store_chooser.FilePersistence = ProvenanceRecords
