"""Whether an experiment's settings agree with each other: what no schema can say. Asked by
scripts/experiment/load.py."""

from scripts.common.cli import UserError
from scripts.experiment.suites import METRICS, known, metrics_of, scored_on

# what a gate may measure of a stage itself, as its summary.json has it; all else is measured by a suite on a dataset
ENGINE = ("loss", "gradient_norm", "memory_gib")


def check_data(config: dict, name: str) -> None:
    """Whether the datasets' settings agree with each other and with the sources.

    Raises:
        UserError: they do not.
    """
    for dataset, settings in config["corpus"]["compose"].items():
        key = f"{name}: corpus.compose.{dataset}"
        if settings["kind"] in ("code", "instruct"):
            if "sources" not in config:
                raise UserError(f"{name}: sources: required, dataset {dataset} is made from repositories")
            continue
        if settings["validation"] + settings["test"] >= 1:
            raise UserError(f"{key}: validation and test leave nothing to train on")
        if ("path" in settings) == ("hub" in settings):
            raise UserError(f"{key}: give either `path` or `hub`")
        if ("hub" in settings) != ("revision" in settings):
            raise UserError(f"{key}.revision: required with `hub` (a commit of 40 hex digits), and only there")
        if "hub" in settings and "sha256" in settings:
            raise UserError(f"{key}.sha256: only with `path`; a hub dataset is pinned by its revision")
    kinds = {settings["kind"] for settings in config["corpus"]["compose"].values()}
    if "sources" in config and not kinds & {"code", "instruct"}:
        raise UserError(f"{name}: sources: no dataset is made from repositories; leave it out")


def check_adapters(config: dict, given: dict, name: str) -> None:
    """Whether the stages' `method`, `lora` and `quantize` agree, `given` being the experiment without defaults.

    Raises:
        UserError: they do not.
    """
    stages = config["training"]["train"]
    for stage, settings in stages.items():
        key, origin = f"{name}: training.train.{stage}", settings["from"]
        if settings["method"] == "full":
            if settings["quantize"] != "none":
                raise UserError(f"{key}.quantize: only with `method: lora`; quantized weights cannot be trained")
            if "lora" in given["training"]["train"][stage]:
                raise UserError(f"{key}.lora: only with `method: lora`")
        elif settings.get("trainable", "all") != "all":
            raise UserError(f"{key}.trainable: not with `method: lora`, where `lora.targets` says what is trained")
        adapter = origin != "base" and stages[origin]["method"] == "lora" and not stages[origin]["lora"]["merge"]
        if settings["quantize"] != "none" and adapter:
            raise UserError(f"{key}.quantize: {origin} saves an adapter alone; give it `lora: {{merge: true}}`")


def check_optimization(config: dict, given: dict, name: str) -> None:
    """Whether what the stages say of optimizer and schedule agrees, `given` being the experiment without defaults.

    Raises:
        UserError: it does not.
    """
    for stage, settings in config["training"]["train"].items():
        key, said = f"{name}: training.train.{stage}", given["training"]["train"][stage]
        muon, lora = settings["optimizer"] == "muon", settings["method"] == "lora"
        stable = settings["scheduler"] == "warmup-stable-decay"
        for setting, wrong, why in (
            ("warmup_share", "warmup_steps" in said, "give either this or `warmup_steps`"),
            ("decay_share", not stable, "only with `scheduler: warmup-stable-decay`"),
            ("muon_learning_rate", not muon, "only with `optimizer: muon`"),
            ("clip", muon, "not with `optimizer: muon`, whose step does not depend on the gradient's length"),
            ("optimizer", muon and lora, "muon trains whole matrices; with `method: lora` use adamw or adamw_8bit"),
            ("learning_rate", settings["learning_rate"] == "auto" and lora, "`auto` is for `method: full`"),
            ("global_batch", settings["global_batch"] == "auto" and lora, "`auto` is for `method: full`"),
        ):
            if setting in said and wrong:
                raise UserError(f"{key}.{setting}: {why}")
        if "steps" in settings:
            warmup = settings.get("warmup_share", settings["warmup_steps"] / settings["steps"])
            if warmup + settings["decay_share"] * stable > 1:
                raise UserError(f"{key}.scheduler: warm-up and decay together are longer than `steps`")


def check_gates(config: dict, given: dict, name: str) -> None:
    """Whether each gate names what there is to measure, `given` being the experiment without defaults.

    Raises:
        UserError: it does not.
    """
    evaluation, stages = config["evaluation"], list(config["training"]["train"])
    alone = (*ENGINE, *(METRICS["latency"] if "latency" in evaluation else ()))
    for number, gate in enumerate(evaluation["gate"]["gates"]):
        key = f"{name}: evaluation.gate.gates.{number}"
        if gate["metric"] in alone:
            for setting in ("dataset", "language", "against"):
                if setting in given["evaluation"]["gate"]["gates"][number]:
                    raise UserError(
                        f"{key}.{setting}: not with `metric: {gate['metric']}`, which a model has by itself"
                    )
            known(f"{key}.model", gate["model"], stages if gate["metric"] in ENGINE else ["base", *stages])
            continue
        suites = [suite for suite in METRICS if suite in evaluation]
        measured = {metric: suite for suite in suites for metric in metrics_of(suite, evaluation[suite])}
        known(f"{key}.metric", gate["metric"], [*measured, *ENGINE])
        if "dataset" not in gate:
            raise UserError(f"{key}.dataset: required with `metric: {gate['metric']}`")
        suite = measured[gate["metric"]]
        known(f"{key}.dataset", gate["dataset"], scored_on(evaluation[suite]))
        for side in ("model", "against"):
            if side in gate:
                known(f"{key}.{side}", gate[side], evaluation[suite].get("models", ["base", *stages]))
