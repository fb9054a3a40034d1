"""scripts/hosts/stopping.py: what the user must change is not tried again, what the machine did is."""

import subprocess
from pathlib import Path

import pytest

from tests import forked

ROOT = Path(__file__).parents[2]
SNAKEFILE = """
import sys
sys.path.insert(0, {root!r})
from scripts.hosts.stopping import end_at_users_mistakes

if workflow.is_main_process:
    end_at_users_mistakes()

rule job:
    output: "made"
    log: "job.log"
    retries: 2
    resources: {resources}
    shell: "echo tried >> tries; echo {line:q} > {{log}}; exit 1"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "resources", "tries"),
    [
        ("error: tokens.vocab_size: too small", "", 1),
        ("error: no commit 0000 in /r", "network=1", 1),
        ("fault: rank 1 on n2 was killed by SIGKILL", "", 3),
        ("Segmentation fault", "", 3),
    ],
)
def test_only_a_users_mistake_ends_the_run_at_once(tmp_path, line, resources, tries):
    text = SNAKEFILE.replace("{line:q}", f"'{line}'").format(root=str(ROOT), resources=resources or "mem_mb=1")
    (tmp_path / "Snakefile").write_text(text)
    command = [forked.python(), "-m", "snakemake", "--cores", "1", "--resources", "network=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (tmp_path / "tries").read_text().count("tried") == tries, done.stderr
