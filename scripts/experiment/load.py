"""Load an experiment file as a checked record: types and bounds, then the checks across settings.

python -m scripts.experiment.load config/config.yaml      # prints "config/config.yaml: valid", or one error line

experiment = load_experiment(read_yaml(path), str(path))   # defaults filled in; attributes, not keys
"""

import difflib
import re
import sys
from pathlib import Path

from scripts.common.cli import run
from scripts.common.discovery import constants_in
from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.evaluation.suites import configured, held_out, scored_datasets
from scripts.experiment.checks import check_datasets, check_gates, check_tokens, check_training
from scripts.experiment.layout import Layout
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.experiment import Evaluation, Experiment
from scripts.experiment.settings.record import HINTS
from scripts.experiment.settings.suites import Generation


def with_datasets(experiment: Experiment) -> Evaluation:
    """The evaluation in which suites that name no datasets have all that they can score."""
    completed, updates = constants_in("scripts.evaluation.suites", "completed"), {}
    for suite, settings in configured(experiment.evaluation).items():
        if suite in completed:
            updates[suite] = completed[suite](settings, experiment)
    return experiment.evaluation.model_copy(update=updates)


def check_suites(experiment: Experiment, name: str) -> None:
    """Check the suites of an experiment whose evaluation went through `with_datasets`. `name`: the experiment's file,
    for errors."""
    evaluation, checks = experiment.evaluation, constants_in("scripts.evaluation.suites", "check")
    for suite, settings in configured(evaluation).items():
        key = f"{name}: evaluation.{suite}"
        if isinstance(settings, Generation) and settings.temperature == 0 and settings.samples > 1:
            raise UserError(f"{key}.samples: with temperature 0 all samples are the same; set a temperature above 0")
        if suite in checks:
            checks[suite](settings, experiment, key)
        if suite == "human_ratings":
            continue
        for dataset in scored_datasets(evaluation, suite):
            if dataset in experiment.corpus.compose and dataset not in held_out(experiment):
                raise UserError(
                    f"{name}: corpus.compose.{dataset}.test: 0 leaves nothing to score; raise it, or take {dataset} out"
                    f" of evaluation.{suite}"
                )


STAGE = "training.train.STAGE"
MACHINE = "machine"  # the machine file

# the key of another tool, or of an earlier version → ours, with its place in the experiment file or the machine file;
# behind a colon the value, if it is one
KEYS = {
    "output_dir": "results",
    "model_name_or_path": "training.base.model",
    "max_seq_length": f"{STAGE}.sequence_length",
    "clip": f"{STAGE}.max_grad_norm",
    "global_batch": f"{STAGE}.global_batch_size",
    "micro_batch": f"{MACHINE}.micro_batch_size",
    "liger": f"{MACHINE}.compile",
    "human": "evaluation.human_ratings",
    "batch_size": f"{STAGE}.global_batch_size",
    "num_train_epochs": f"{STAGE}.epochs",
    "max_steps": f"{STAGE}.steps",
    "lr": f"{STAGE}.learning_rate",
    "warmup_ratio": f"{STAGE}.warmup_steps",
    "gradient_clipping": f"{STAGE}.max_grad_norm",
    "bf16": f"{STAGE}.precision: bf16",
    "load_in_4bit": f"{STAGE}.quantize: 4bit",
    "lora_rank": f"{STAGE}.lora.r",
    "lora_alpha": f"{STAGE}.lora.alpha",
    "per_device_train_batch_size": f"{MACHINE}.micro_batch_size",
    "deepspeed": f"{MACHINE}.sharding",
}
# their key → why there is none here
WITHOUT_KEY = {
    "gradient_accumulation_steps": f"it follows from `{STAGE}.global_batch_size` and the machine file's"
    " `micro_batch_size`",
    "resume_from_checkpoint": "a stage that was stopped resumes by itself",
}


def key_hint(key: str, known: list[str]) -> str | None:
    """What to say about an unknown key; None if nothing is known about it. `known`: the keys at the place where it
    stands, from which on ours is written."""
    nested = key.split(".")
    if len(nested) > 1 and nested[0] in known:
        return f"keys are nested, not dotted: `{': {'.join(nested)}: ...{'}' * (len(nested) - 1)}`"
    if key in WITHOUT_KEY:
        return f"there is none here: {WITHOUT_KEY[key]}"
    if key not in KEYS:
        return None
    parts = KEYS[key].split(".")
    for number, part in enumerate(parts):
        if part.partition(":")[0] in known:
            return f"here it is `{'.'.join(parts[number:])}`"
    if parts[0] == MACHINE:
        return f"here it is `{parts[1]}` in the machine file, config/machines/"
    if difflib.get_close_matches(key, known, 1):  # as `batch_size` of a suite that has `batch`
        return None
    return f"here it is `{KEYS[key]}`"


# key → the keys of the layers below whose place it takes: they say the same thing in another way, or belong to it
REPLACES = {
    "steps": ("epochs",),
    "epochs": ("steps",),
    "path": ("hub", "revision"),
    "hub": ("path", "sha256"),
    "languages": ("extensions",),
    "extensions": ("languages",),
    "model": ("package", "file", "revision", "sha256", "shape"),
    "package": ("model", "file", "revision", "sha256", "shape"),
}


def without_replaced(below: dict, above: dict) -> dict:
    """`below` without the keys that keys of `above` stand in the place of."""
    replaced = set()
    for key, value in above.items():
        if value is not None and value != below.get(key):
            replaced.update(REPLACES.get(key, ()))
    return {key: value for key, value in below.items() if key not in replaced}


def merged(below: dict, above: dict) -> dict:
    """`above` laid over `below`: mappings are merged key by key, `null` removes a key, anything else is replaced."""
    result = without_replaced(below, above)
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
        else:
            both = isinstance(value, dict) and isinstance(below.get(key), dict)
            result[key] = merged(below[key], value) if both else value
    return result


HINTS.append(key_hint)


def extended(config: dict, name: str, seen: tuple[str, ...] = ()) -> dict:
    """An experiment's settings over those of the file in its `extends`, which may extend a further one. Raises
    UserError: such a file is missing or no YAML, or extends itself."""
    origin = config.get("extends")
    if not isinstance(origin, str):  # the record says what else is wrong
        return config
    if origin in seen:
        raise UserError(f"{name}: extends: {origin} extends itself")
    below = extended(read_yaml(Path(origin)), origin, (*seen, origin))
    return merged(below, {key: value for key, value in config.items() if key != "extends"})


def says(config: dict, keys: list[str]) -> bool:
    """Whether a file says something at this place."""
    for key in keys:
        if not isinstance(config, dict) or key not in config:
            return False
        config = config[key]
    return True


def file_that_says(config: dict, name: str, message: str) -> str:
    """What an error adds where the setting stands in a file that this one extends, and not in this one."""
    place = re.match(rf"{re.escape(name)}: ([\w.]+)", message)
    if not place:
        return ""
    origin, keys = name, place[1].rstrip(".").split(".")
    while not says(config, keys):
        if not isinstance(config.get("extends"), str):
            return ""
        origin = config["extends"]
        config = read_yaml(Path(origin))
    return f" ({origin} says it)" if origin != name else ""


def load_experiment(config: dict, name: str = "config") -> Experiment:
    """A whole experiment, laid over what it extends, defaults filled in.

    Args:
        config: the content of its file.
        name: the file, for errors.

    Raises:
        UserError: a setting is wrong, or names a file, stage, dataset or model that is not there.
    """
    whole = extended(config, name)
    try:
        return checked(whole, name)
    except UserError as error:
        raise UserError(f"{error}{file_that_says(config, name, str(error))}") from error


def checked(config: dict, name: str) -> Experiment:
    """An experiment of settings that extend nothing; arguments and errors as above."""
    experiment = Experiment.parse(config, name)
    check_datasets(experiment, name)
    check_tokens(experiment, name)
    check_training(experiment, name)
    experiment = experiment.model_copy(update={"evaluation": with_datasets(experiment)})
    check_suites(experiment, name)
    check_gates(experiment, name)
    return experiment


def experiment_of(profile: str, configfile: Path | None) -> tuple[Path, Experiment]:
    """(file, checked content) of an experiment: that of the file, or without one the profile's own."""
    path = configfile or Path(read_yaml(Path(profile) / "config.yaml").get("configfile", "config/config.yaml"))
    return path, load_experiment(read_yaml(path), str(path))


def newest_experiment() -> Path | None:
    """The experiment file whose results are the newest; None where there are none."""
    newest, at = None, 0.0
    for file in [*Path("config").glob("*.yaml"), *Path("config/experiments").glob("*.yaml")]:
        try:
            results = read_yaml(file).get("results", "results")
        except UserError:  # of another experiment
            continue
        written = Path(str(results), "eval.json")
        if written.is_file() and written.stat().st_mtime > at:
            newest, at = file, written.stat().st_mtime
    return newest


def experiment_in_use(profile: str, configfile: Path | None) -> Experiment:
    """The experiment of a file; without one that whose results are the newest, which is said, else the profile's."""
    if configfile is None:
        configfile = newest_experiment()
        if configfile:
            print(f"experiment: {configfile}, whose results are the newest")
    return experiment_of(profile, configfile)[1]


def check_owner(experiment: Experiment, claim: bool = False) -> None:
    """Check that the results root holds no results of another experiment.

    Args:
        claim: whether to write there that it is this experiment's.

    Raises:
        UserError: it does.
    """
    owner, name = Layout(Path(experiment.results)).owner, experiment.experiment
    held_by = owner.read_text().strip() if owner.is_file() else name
    if held_by != name:
        raise UserError(
            f"results: {experiment.results} holds the results of experiment {held_by}, this one is {name}; give it a"
            f" root of its own, as `results: {experiment.results}/{name}`, or remove {owner} if only the name changed"
        )
    if claim and not owner.is_file():
        with atomic(owner) as temporary:
            temporary.write_text(f"{name}\n")


def main() -> None:
    for path in sys.argv[1:]:
        load_experiment(read_yaml(Path(path)), path)
        print(f"{path}: valid")


if __name__ == "__main__":
    run(main)
