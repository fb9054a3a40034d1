"""The evaluation's suites: their metrics, what they score, and whether their settings agree with the rest."""

from pathlib import Path

from scripts.common.cli import UserError

# the metrics of each suite, unique over all of them; what they are stands in scripts/evaluation/metrics/registry.py
METRICS = {
    "perplexity": ("perplexity", "bits_per_byte"),
    "qa": ("exact_match", "f1", "strict_match"),
    "bleu": ("bleu", "chrf"),
    "keywords": ("keywords", "structure"),
    "code": ("pass@{k}",),  # for each of its `k`
    "latency": ("first_token_seconds", "answer_seconds", "tokens_per_second"),  # no sums over items; no datasets
    "human": ("correct",),
}
CHATS = ("instruct", "chat")  # the kinds of dataset that ask something
ASKING = ("qa", "bleu", "keywords", "code")  # suites with problems that training data may hold


def known(key: str, value: str, names: list[str]) -> None:
    """Refuse a `value` that is none of `names`.

    Raises:
        UserError: so it is; the line starts with `key`.
    """
    if value not in names:
        raise UserError(f"{key}: no {value!r} here; known: {', '.join(names)}")


def metrics_of(suite: str, settings: dict) -> tuple[str, ...]:
    """The metrics of a suite with these settings."""
    return tuple(metric.format(k=k) for metric in METRICS[suite] for k in settings.get("k", [None]))


def scored_models(evaluation: dict, stages: list[str]) -> dict[str, list[str]]:
    """The suites that score, each with the models that it scores: `human` only once a sheet is filled."""
    found = {suite: evaluation[suite] for suite in METRICS if suite in evaluation}
    return {
        suite: settings.get("models", ["base", *stages])
        for suite, settings in found.items()
        if settings.get("sheets", True)
    }


def dataset_of(file: str | Path) -> str:
    """What a file of cases or problems is called as a dataset: its own name up to the first dot."""
    return Path(file).name.split(".")[0]


def asked_files(settings: dict) -> list[str]:
    """The files of cases or problems of a suite with these settings; none where datasets are asked."""
    return [*filter(None, [settings.get("cases")]), *(one["path"] for one in settings.get("benchmarks", []))]


def scored_on(settings: dict) -> list[str]:
    """The datasets of a suite with these settings."""
    return settings["datasets"] if "datasets" in settings else [dataset_of(file) for file in asked_files(settings)]


def asks(settings: dict) -> dict:
    """Of an asking suite's settings those that say what is asked, however the answers are generated."""
    found = {key: settings[key] for key in ("datasets", "documents", "cases") if key in settings}
    if "benchmarks" in settings:
        found["benchmarks"] = [{"path": benchmark["path"]} for benchmark in settings["benchmarks"]]
    return found


def check_suites(config: dict, name: str) -> None:
    """Whether the suites name what is there and can be generated; where they name no datasets they get their kind's.

    Raises:
        UserError: they do not.
    """
    evaluation, datasets = config["evaluation"], config["corpus"]["compose"]
    for suite, kinds in (("perplexity", None), ("qa", CHATS), ("bleu", CHATS)):
        fitting = [one for one, settings in datasets.items() if kinds is None or settings["kind"] in kinds]
        if suite in evaluation:
            for dataset in evaluation[suite].setdefault("datasets", fitting):
                known(f"{name}: evaluation.{suite}.datasets", dataset, fitting)
            if not evaluation[suite]["datasets"]:
                raise UserError(f"{name}: evaluation.{suite}.datasets: none of kind {' or '.join(kinds or ['any'])}")
    if evaluation["perplexity"]["stride"] > evaluation["perplexity"]["context"]:
        raise UserError(f"{name}: evaluation.perplexity.stride: {evaluation['perplexity']['stride']} exceeds `context`")
    for suite in METRICS:
        settings = evaluation.get(suite, {})
        greedy = settings.get("temperature") == 0
        if greedy and settings["samples"] > 1:
            raise UserError(f"{name}: evaluation.{suite}.samples: all the same with temperature 0; raise it")
        if settings.get("beams", 1) > 1 and settings["engine"] == "vllm":
            raise UserError(f"{name}: evaluation.{suite}.beams: not with `engine: vllm`; use transformers")
        if settings.get("beams", 1) > 1 and not greedy:
            raise UserError(f"{name}: evaluation.{suite}.beams: a search samples nothing; set temperature to 0")
        if "cases" in settings and not Path(settings["cases"]).is_file():
            raise UserError(f"{name}: evaluation.{suite}.cases: no file {settings['cases']}")
    batches = evaluation.get("latency", {}).get("batches", [1])
    if batches != sorted({1, *batches}):
        raise UserError(f"{name}: evaluation.latency.batches: must grow from 1, the batch of an answer; not {batches}")
    check_code(config, name)
    check_human(config, name)


def check_code(config: dict, name: str) -> None:
    """Whether the settings of the suite `code` agree, and its benchmark files are there.

    Raises:
        UserError: they do not, or are not.
    """
    code, files = config["evaluation"].get("code"), {}
    if code is None:
        return
    key = f"{name}: evaluation.code"
    if max(code["k"]) > code["samples"]:
        raise UserError(f"{key}.k: pass@{max(code['k'])} needs as many `samples`, not {code['samples']}")
    for number, benchmark in enumerate(code["benchmarks"]):
        path = Path(benchmark["path"])
        if "git" not in benchmark and not path.is_file():
            raise UserError(f"{key}.benchmarks.{number}.path: {path}: no such file")
        other = files.setdefault(dataset_of(path), path)
        if other is not path:
            raise UserError(f"{key}.benchmarks.{number}.path: {path} has the name of {other}; rename one")


def check_human(config: dict, name: str) -> None:
    """Whether the suite `human` rates what a suite lets models write, and its sheets are there; it gets all models and
    all datasets of that suite where it names none.

    Raises:
        UserError: it does not, or they are not.
    """
    evaluation, raters = config["evaluation"], {}
    human = evaluation.get("human")
    if human is None:
        return
    key, suite = f"{name}: evaluation.human", human["of"]
    if suite not in evaluation:
        raise UserError(f"{key}.of: {suite} does not run; give evaluation.{suite} its settings")
    for setting, names in (
        ("models", ["base", *config["training"]["train"]]),
        ("datasets", scored_on(evaluation[suite])),
    ):
        for value in human.setdefault(setting, names):
            known(f"{key}.{setting}", value, names)
    for number, sheet in enumerate(human["sheets"]):
        if not Path(sheet).is_file():
            raise UserError(f"{key}.sheets.{number}: {sheet}: no such file")
        other = raters.setdefault(Path(sheet).stem, sheet)
        if other != sheet:
            raise UserError(f"{key}.sheets.{number}: {sheet} has the rater's name of {other}; rename one")
