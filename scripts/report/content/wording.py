"""The report's sentences and facts: the verdict and its reasons, the run, plans beside what was measured."""

from pathlib import Path

from scripts.common.text import duration, enumeration
from scripts.experiment.layout import Layout
from scripts.experiment.model_folder import description
from scripts.report.content.formatting import gate_bound, gate_interval, gate_value, interval, number, over, table

HEADLINES = {
    "met": "All gates are met",
    "met, not secured": "Met, but not secured",
    "not measured": "Met as far as it was measured",
    "not met": "Not met",
    "no gates": "No gates, no verdict",
}
FEW = 10  # fewer equal clusters than these say little about others


def final_model(evaluation: dict) -> str:
    """The last stage; its model is what the run produces."""
    return list(evaluation["stages"])[-1]


def final_rows(evaluation: dict, direction: str) -> list[dict]:
    """The comparisons over all languages in which the final model is `better`, or `worse`."""
    about = {"model": final_model(evaluation), "language": "all", "direction": direction}
    return [row for row in evaluation["comparisons"] if about.items() <= row.items()]


def subject(row: dict) -> str:
    """What a comparison is about: a dataset, such as `code`; for suite `completion` a size, as `line completion`."""
    if row.get("suite") == "completion":
        return f"{row['dataset']} completion"
    return row["dataset"]


def worse_on(evaluation: dict) -> list[str]:
    """What the final model is worse on than a model that it was compared with."""
    return list(dict.fromkeys(map(subject, final_rows(evaluation, "worse"))))


def headline(evaluation: dict) -> str:
    """The gates' verdict, and on what the final model is worse, which gates may not cover."""
    verdict, worse = HEADLINES[evaluation["verdict"]], worse_on(evaluation)
    if not worse or evaluation["verdict"] == "not met":
        return verdict
    return f"{verdict}, but {final_model(evaluation)} is worse on {enumeration(worse)}"


def tone(evaluation: dict) -> str:
    """The CSS class of the verdict; `met` only if the final model is worse on nothing, and its gain can be seen."""
    verdict = evaluation["verdict"]
    question = evaluation.get("question")
    unseen = question is not None and question["advice"].startswith(f"{question['heading']}:")
    if verdict == "met" and (worse_on(evaluation) or unseen):
        verdict = "met, not secured"
    return verdict.replace(", ", "-").replace(" ", "-")


def units_note(evaluation: dict) -> str:
    """What intervals are over, and on which datasets that is little."""
    unit = "files, a file and its test being one"
    if evaluation["unit"] == "repository":
        unit = "repositories"
    fewest: dict[str, tuple[float, int]] = {}
    for row in evaluation["comparisons"]:
        if row["language"] == "all" and row["effective"] is not None:
            found = row["effective"], row["clusters"]
            fewest[row["dataset"]] = min(fewest.get(row["dataset"], found), found)
    little = [
        f"{name} ({count} count as {effective:g})" for name, (effective, count) in fewest.items() if effective < FEW
    ]
    warning = ""
    if little:
        warning = f" Too few for firm statements: {', '.join(little)}."
    return f"they are for other {unit}.{warning}"


def seeds_note(train: dict[str, dict]) -> str:
    """What intervals are about beyond other documents. `train`: `training.train` of the experiment."""
    trained = [f"{stage} ({len(settings['seeds'])} seeds)" for stage, settings in train.items() if "seeds" in settings]
    if not trained:
        return "They say what other documents would give, not what training with another seed would."
    return (
        f"They say what other documents would give, and of {', '.join(trained)} what training with other seeds would,"
        " too: there, values and counts are means over the seeds. Curves of training, latency and what was written are"
        " of the first seed."
    )


def beside_compressor(evaluation: dict) -> str:
    """What the final model needs more or less than a compressor that has read some of the training data."""
    model, parts = final_model(evaluation), []
    for row in evaluation["baselines"]["rows"]:
        if row["model"] == model and row["against"] == "compressor_trained" and row["value"] is not None:
            reading = {"better": "better", "worse": "worse"}.get(row["direction"], "no difference shown")
            ends = interval(row["interval"], True)
            parts.append(f"{row['dataset']} {number(row['value'], True)} bits per byte ({ends}; {reading})")
    megabytes = evaluation["baselines"]["compressor"]["bytes_read"] / 1e6
    return f"{model} beside a compressor that has read {megabytes:.1g} MB of the training data: {'; '.join(parts)}."


def explanation(gates: list[dict]) -> str:
    """The reasons for the verdict, in one to five sentences."""
    if not gates:
        return "The experiment names no success criteria, so nothing was decided."
    unmet = [gate["name"] for gate in gates if gate["outcome"].startswith("not met")]
    unknown = [gate["name"] for gate in gates if gate["outcome"] == "not measured"]
    crossing = [gate["name"] for gate in gates if gate["outcome"].endswith("not secured")]
    sentences = [f"{len(gates) - len(unmet) - len(unknown)} of {len(gates)} gates are met."]
    if unmet:
        sentences.append(f"Not met: {'; '.join(unmet)}.")
    if unknown:
        sentences.append(f"Not measured: {'; '.join(unknown)}.")
    if crossing:
        sentences.append(
            f"Not secured, so other test documents or runs might give another outcome: {'; '.join(crossing)}."
        )
    easy = [gate["name"] for gate in gates if gate.get("also_met_by")]
    if easy:
        sentences.append(f"A compressor would meet, too: {'; '.join(easy)}.")
    return " ".join(sentences)


def contamination(words: int, rows: list[dict]) -> str:
    """How many problems share `words` words in a row with the training data; `rows` as by `contamination_rows`."""
    total, overlapping = sum(row["problems"] for row in rows), sum(row["overlapping"] for row in rows)
    short = sum(row["too_short"] for row in rows)
    if overlapping:
        how_many = f"{overlapping:,} of {total:,} problems share"
    else:
        how_many = f"None of the {total:,} problems shares"
    rest = ""
    if short:
        rest = f" {short:,} could not be checked, as they have fewer words."
    return f"{how_many} {words} words in a row with the training data.{rest}"


def printed_summary(evaluation: dict, results: Path) -> str:
    """Lines for a terminal: the answer, the gates, what was gained and lost, the verdict, the report's path."""
    rows = [("gate", "value", f"{evaluation['confidence']:.0%} interval", "bound", "outcome")]
    rows += [
        (gate["name"], gate_value(gate), gate_interval(gate), gate_bound(gate), gate["outcome"])
        for gate in evaluation["gates"]
    ]
    gates = table(rows) if evaluation["gates"] else []
    answer, clear, told = [], [], [*final_rows(evaluation, "better"), *final_rows(evaluation, "worse")]
    if evaluation["question"]:
        answer, told = [evaluation["question"]["sentence"]], final_rows(evaluation, "worse")
    for row in told:
        change = f"{row['metric'].replace('_', ' ')} {number(row['value'], True)}, {interval(row['interval'], True)}"
        clear.append(
            f"{row['model']} against {row['against']}: {row['direction']} on {subject(row)} ({change}{over(row)})"
        )
    stage = evaluation["question"]["model"] if evaluation["question"] else list(evaluation["stages"])[-1]
    lines = [*clear, f"verdict: {evaluation['verdict']}", f"report:  {Layout(results).page}"]
    commands = [f"stagecraft try {stage} --at FILE:LINE", f"stagecraft serve {stage}", f"stagecraft release {stage}"]
    lines.append(f"use it:  {', '.join(commands)}")
    return "\n".join([*answer, *gates, *lines])


def run_facts(evaluation: dict, dated: str = "") -> dict[str, str]:
    """Heading → text, for model, data, machine, commit, date, time and cost; what is not recorded is left out. `dated`:
    the date of the last stage's files."""
    stages, experiment = evaluation["stages"], evaluation["inputs"]["experiment"]
    last = list(stages)[-1]
    trained = []
    for stage in stages.values():
        trained += stage.get("seeds", {"": stage}).values()
    environments = [model["environment"] for model in trained]
    summaries = [model["summary"] for model in trained]
    base = description(experiment["training"]["base"])
    parameters = summaries[-1].get("parameters")
    data = [f"{stage['data']} ({name})" for name, stage in experiment["training"]["train"].items()]
    environment = environments[-1]
    gpus = environment.get("gpus") or []
    processor = " ".join([f"{len(gpus)} × {gpus[0]}"] if gpus else [environment.get("cpu") or "CPU"])
    computed_in = ", ".join(dict.fromkeys(stage["precision"] for stage in experiment["training"]["train"].values()))
    commits = list(dict.fromkeys(record["git_commit"] for record in environments if record.get("git_commit")))
    seconds = sum(record.get("seconds") or 0 for record in summaries)
    tokens = sum(record.get("tokens") or 0 for record in summaries)
    hours = sum(
        (record.get("seconds") or 0) * len(machine.get("gpus") or [])
        for record, machine in zip(summaries, environments, strict=True)
    )
    size = f", {parameters:,} parameters" if parameters else ""
    host = ""
    if environment.get("host"):
        host = f", {environment['host']}"
    cost = f", {hours / 3600:.1f} GPU hours" if hours else ""
    facts = {
        "Model": f"{last}{size}, from {base}",
        "Data": ", ".join(data),
        "Machine": f"{processor}{host}, trained in {computed_in}",
        "Commit": ", ".join(record[:12] for record in commits),
        "Files dated": dated,
        "Training took": f"{duration(seconds)}{cost}" if seconds else "",
        "Tokens trained on": f"{tokens:,}" if tokens else "",
        "Sources": f"{len(evaluation['inputs']['sources']):,}" if evaluation["inputs"]["sources"] else "",
    }
    return {name: value for name, value in facts.items() if value}


FIGURES = (
    # (name, key of the plan, key of the summary, factor from the summary's unit to the plan's)
    ("optimizer steps", "steps", "steps", 1),
    ("tokens per second", "tokens_per_second", "tokens_per_second", 1),
    ("hours", "seconds", "seconds", 1 / 3600),
    ("GiB per GPU", "gpu_gib", "memory_gib", 1),
)


def planned_and_measured(stages: dict) -> list[dict]:
    """A row per stage and figure; stages that started without a plan have none.

    `off` is measured / planned - 1, None if one of them is missing. `resumed` is the step from which the measured hours
    were counted, 0 if they cover the whole stage.

    Args:
        stages: stage → {"summary": its summary.json, ...}, as eval.json holds them.
    """
    rows = []
    for stage, facts in stages.items():
        measured = facts["summary"]
        planned = measured.get("plan")
        if not planned:
            continue
        resumed = measured.get("resumed_at_step") or 0
        for label, before, after, unit in FIGURES:
            if planned.get(before) is None and measured.get(after) is None:
                continue
            pair = [value and value * unit for value in (planned.get(before), measured.get(after))]
            since = resumed if label == "hours" else 0
            off = None
            if all(pair) and not since:
                off = pair[1] / pair[0] - 1
            row = {"stage": stage, "what": label, "planned": pair[0], "measured": pair[1]}
            rows.append(row | {"off": off, "resumed": since})
    return rows


def unplanned(stages: dict) -> list[str]:
    """The stages whose plan has no hours, as their machine file names no speed."""
    plans = {stage: facts["summary"].get("plan") for stage, facts in stages.items()}
    return [stage for stage, planned in plans.items() if planned and planned.get("seconds") is None]
