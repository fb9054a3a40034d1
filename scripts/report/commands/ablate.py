"""Run the arms of an experiment's `ablate`, and print the effect of each.

    stagecraft ablate --experiment config/experiments/mine.yaml

Finished jobs do not run again, so a second call prints the table at once.
"""

import subprocess
import sys
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import Layout
from scripts.experiment.load import experiment_of
from scripts.report.content.arms_table import lines


def ablate(profile: str, configfile: Path | None) -> list[str]:
    """Train and score what is missing of all arms; returns the lines of the table.

    Raises:
        UserError: the experiment has no arms, or a job failed.
    """
    path, experiment = experiment_of(profile, configfile)
    if experiment.ablate is None:
        raise UserError(f"{path}: ablate: missing; add it with `arms`, see docs/evaluation.md")
    table = Layout(Path(experiment.results)).ablation / "ablation.json"
    command = [sys.executable, "-m", "snakemake", str(table), "--profile", profile]
    command += ["--configfile", str(configfile)] if configfile else []
    if subprocess.run(command, check=False).returncode:
        raise UserError(f"ablation of {path}: a job failed; the lines above say why")
    ablation = read_json(table)
    return [*lines(ablation["rows"], ablation["confidence"]), f"picture: {table.with_suffix('.svg')}"]
