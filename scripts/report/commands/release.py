"""Release a stage's model: run what is missing, list the files, and push these to the hub if asked to."""

import subprocess
import sys
from pathlib import Path

from scripts.common.disk import size_text
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import MANIFEST, Layout
from scripts.experiment.load import experiment_of
from scripts.experiment.settings.record import check_name


def push_files(folder: Path, names: list[str], repository: str) -> str:
    """Upload some files of a folder to a model repository of the hub, a private one if it is new; returns its address.

    Args:
        repository: `ORGANISATION/NAME`.

    Raises:
        UserError: the name is none, nobody is logged in, or the hub refuses.
    """
    import httpx2
    from huggingface_hub import HfApi, errors

    hub, message = HfApi(), f"Release {folder.name} by stagecraft"
    try:
        made = hub.create_repo(repository, private=True, exist_ok=True)
        hub.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=names, commit_message=message)
    except errors.OfflineModeIsEnabled as error:
        raise UserError(f"--push {repository}: not pushed: HF_HUB_OFFLINE is set; unset it to push") from error
    except (
        errors.HFValidationError,
        errors.LocalTokenNotFoundError,
        errors.HfHubHTTPError,
        httpx2.HTTPError,
    ) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"--push {repository}: not pushed: {first}; `hf auth login` says who you are") from error
    return str(made)


def release(stage: str, profile: str, configfile: Path | None, push: str) -> None:
    """Make the release of a stage by the workflow, print its files, and push them.

    Args:
        push: `ORGANISATION/NAME` of the hub; empty to push nothing.

    Raises:
        UserError: there is no such stage, or the workflow failed.
    """
    experiment = experiment_of(profile, configfile)[1]
    check_name("stage", stage, experiment.stages)
    folder = Layout(Path(experiment.results)).release(stage)
    words = ["--profile", profile, *(["--configfile", str(configfile)] if configfile else [])]
    done = subprocess.run([sys.executable, "-m", "snakemake", str(folder / MANIFEST), *words], check=False)
    if done.returncode:
        raise UserError(f"{folder}: not released; the lines above say why")
    files = read_json(folder / MANIFEST)["files"]
    for name, file in sorted(files.items()):
        print(f"{size_text(file['bytes']):>10}  {folder / name}")
    print(f"check a copy, wherever it lies: stagecraft verify {folder}")
    if push:
        print(f"pushed to {push_files(folder, list(files), push)}")
    else:
        print(
            f"push these files to a private repository of the hub: stagecraft release {stage} --push ORGANISATION/NAME"
        )
