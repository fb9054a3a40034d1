"""What of Snakemake and its Slurm plugin is replaced, and why: each part fails here when upstream changes it.

After an upgrade read the new code beside ours, and write down the new hash once both agree.
"""

import hashlib
import importlib
import inspect

import pytest

# part → (hash of its source, why it is replaced, and where)
INTERNALS = {
    "snakemake.jobs:Job.check_protected_output": (
        "cc24c2002a61",
        "a dry run may look at results that one may only read (hosts/start.py)",
    ),
    "snakemake_interface_executor_plugins.executors.remote:RemoteExecutor.next_seconds_between_status_checks": (
        "e371ad38e629",
        "the profile's seconds between two looks at the queue are kept (hosts/start.py)",
    ),
    "snakemake.scheduling.job_scheduler:JobScheduler._handle_error": (
        "255b52a98a34",
        "a user's mistake is not tried again, a fault of the scheduler spends no try (hosts/stopping.py)",
    ),
    "snakemake.scheduling.job_scheduler:JobScheduler.exit_gracefully": (
        "71dc8bb2df12",
        "a SIGTERM lets the stages that train save (hosts/stopping.py)",
    ),
    "snakemake.scheduling.job_scheduler:JobScheduler.schedule": (
        "9f32db93a39b",
        "no signal is lost to a thread that waits for a job (hosts/stopping.py)",
    ),
    "snakemake.settings.types:ResourceSettings._parsed_overwrite_resources": (
        "8183df9259ee",
        "a profile describes kinds of jobs, not each rule (hosts/profile.py)",
    ),
    "snakemake.persistence.file:FilePersistence": (
        "4b3a1d8f2e34",
        "records of jobs are the provenance files beside the results (hosts/provenance_records.py)",
    ),
    "snakemake_executor_plugin_slurm:query_job_status": ("e0a595a37ef2", "`squeue` alone is asked (slurm_status.py)"),
    "snakemake_executor_plugin_slurm:get_min_job_age": ("26dc8de45ece", "`squeue` alone is asked (slurm_status.py)"),
    "snakemake_executor_plugin_slurm:Executor.cancel_jobs": (
        "fa5264a51538",
        "a Ctrl-C while `squeue` is asked cancels the jobs, too (hosts/slurm_status.py)",
    ),
    "snakemake_executor_plugin_slurm:Executor.check_active_jobs": (
        "a15ec905e07e",
        "it calls what is replaced above (hosts/slurm_status.py)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", INTERNALS)
def test_a_part_of_snakemake_that_is_replaced_is_as_it_was(part):
    module, _, names = part.partition(":")
    found = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    source = inspect.getsource(getattr(found, "fget", None) or getattr(found, "func", None) or found)
    digest, why = INTERNALS[part]
    assert hashlib.sha256(source.encode()).hexdigest()[:12] == digest, why
