"""Release a stage's model: run what is missing, then list the files and say how they are handed on."""

import subprocess
import sys
from pathlib import Path

from scripts.common.disk import size_text
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import MANIFEST, Layout
from scripts.experiment.load import trained_experiment_of
from scripts.experiment.settings.record import check_name


def release(stage: str, profile: str, configfile: Path | None) -> None:
    """Make the release of a stage by the workflow, and print its files.

    Raises:
        UserError: there is no such stage, or the workflow failed.
    """
    experiment = trained_experiment_of(profile, configfile)[1]
    check_name("stage", stage, experiment.stages)
    folder = Layout(Path(experiment.results)).release(stage)
    words = ["--profile", profile, *(["--configfile", str(configfile)] if configfile else [])]
    done = subprocess.run([sys.executable, "-m", "snakemake", str(folder / MANIFEST), *words], check=False)
    if done.returncode:
        raise UserError(f"{folder}: not released; the lines above say why")
    for name, file in sorted(read_json(folder / MANIFEST)["files"].items()):
        print(f"{size_text(file['bytes']):>10}  {folder / name}")
    print(f"check a copy, wherever it lies: stagecraft verify {folder}")
    print(f"push these files to the hub, after `hf auth login`: hf upload ORGANISATION/NAME {folder} .")
