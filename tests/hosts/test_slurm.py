"""scripts/hosts/slurm_queue.py: which jobs of the queue are this folder's. Waiting: tests/workflow/test_cluster.py."""

from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.hosts.slurm_queue import queued


@pytest.fixture
def squeue(monkeypatch, tmp_path):
    """Put a squeue first on the PATH that prints and returns what it is told to."""

    def write(lines: str, code: int = 0) -> None:
        program = tmp_path / "squeue"
        (tmp_path / "lines").write_text(lines)
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/lines >&{2 if code else 1}\nexit {code}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return write


def test_only_jobs_that_a_snakemake_sent_from_this_folder_count(squeue):
    here = ["7|/home/me/one|rule_train_wildcards_sft", "8_2|/home/me/one|rule_filter"]
    others = ["9|/home/me/one|(null)", "10|/tmp|rule_base", "11|/home/me|a|b"]
    squeue("".join(f"{line}\n" for line in [*others, *here]))
    assert queued(Path("/home/me/one")) == {"7": "rule_train_wildcards_sft", "8_2": "rule_filter"}


def test_an_empty_queue_has_no_jobs(squeue):
    squeue("")
    assert queued(Path("/home/me/one")) == {}


def test_a_queue_that_cannot_be_read_is_a_one_line_error(squeue):
    squeue("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", code=1)
    with pytest.raises(UserError, match=r"queue cannot be read: slurm_load_jobs error: Unable to contact"):
        queued(Path("/home/me/one"))
