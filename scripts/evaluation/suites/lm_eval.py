"""Tasks of the lm-evaluation-harness, item by item: multiple choice, few-shot, general ability before and after.

    python -m scripts.evaluation.suites.lm_eval --model results/training/base --out results/evaluation/lm_eval/base \\
        --settings '{"tasks": ["colours", "sums:exact_match,digits"], "include_path": "tasks", "limit": 100}'

lm-eval writes the prompts, runs the model and computes its metrics. Its log of each item
becomes an item here, so that models are compared pairwise on the same items. Nothing is downloaded: data is read from
files below `include_path`, or from this machine's Hugging Face cache.
"""

import hashlib
import logging
import numbers
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.options import command
from scripts.evaluation.generation.model import ScoredModel, load, write_scores
from scripts.evaluation.metrics.metric import means
from scripts.evaluation.suites import About, files_below
from scripts.experiment.settings.record import Names, Record, Text, to_dict

if TYPE_CHECKING:
    from lm_eval.api.task import Task
    from lm_eval.tasks import TaskManager

PLACE = 8
ABOUT = About(
    "Tasks of the lm-evaluation-harness: the mean over items of the metric named behind the task's colon, else of the"
    " first that the task lists, 0 to 1; subtasks of a group in the place of languages. More is better.",
    seeded=False,
)
SUITE = means("task_score")
TASK = re.compile(r"[\w.+-]+(:[\w@.+-]+(,[\w.+-]+)?)?")  # `task`, `task:metric`, `task:metric,filter`
KEY = "evaluation.lm_eval.tasks"
BATCH = 8  # prompts


class Settings(Record):
    """Off unless given. Scores tasks of the lm-evaluation-harness; their data must be on this machine."""

    tasks: Names = Field(
        description="Tasks, groups or tags of lm-eval; in scores each is a dataset of this name. `task:metric`"
        " chooses a metric, such as `arc_easy:acc_norm` or `gsm8k:exact_match,flexible-extract`; by"
        " default the first metric that the task lists."
    )
    include_path: Text | None = Field(
        None,
        description="Folder with tasks of your own (YAML) and their data. A change of any file in it reruns the suite.",
    )
    num_fewshot: int | None = Field(
        None, ge=0, description="Number of solved examples in each prompt; by default that of the task."
    )
    limit: int | None = Field(None, ge=1, description="Score only this many items of each task, from the first.")
    chat: bool = Field(
        False, description="Whether each prompt is formatted as a request with the model's chat template."
    )


def datasets(settings: Settings) -> list[str]:
    return settings.tasks


def files(settings: Settings) -> list[str]:
    return files_below(settings.include_path)


def check(settings: Settings, experiment, key: str) -> None:
    """Check the form of the tasks' names; whether lm-eval has them is known only when the suite runs. Raises UserError:
    one is malformed, or the folder of tasks is not there; the line starts with `key`."""
    if settings.include_path is not None and not Path(settings.include_path).is_dir():
        raise UserError(f"{key}.include_path: no folder {settings.include_path}")
    for number, task in enumerate(settings.tasks):
        if not TASK.fullmatch(task):
            raise UserError(f"{key}.tasks.{number}: must be `task` or `task:metric`, not {task!r:.60}")


def small(settings: Settings, items: int) -> dict:
    return {"limit": items}


def go_offline() -> None:
    """Switch the Hugging Face libraries to their offline mode."""
    import datasets
    import huggingface_hub

    huggingface_hub.constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True


def check_data(name: str, task: "Task", folder: Path | None) -> None:
    """Check that a task's local files lie in `folder`, as only changes there cause a rerun."""
    data = (task.config.dataset_kwargs or {}).get("data_files") or []
    if isinstance(data, str):
        data = [data]
    elif isinstance(data, dict):
        data = data.values()
    files = []
    for of_split in data:
        if isinstance(of_split, str):
            of_split = [of_split]
        files += of_split
    for file in [*files, task.config.dataset_path or ""]:
        if file and Path(file).exists() and (folder is None or folder.resolve() not in Path(file).resolve().parents):
            raise UserError(
                f"{KEY}: {name} reads {file}, which is not below evaluation.lm_eval.include_path, so that a"
                " change of it would not be noticed; move it there"
            )


@cache
def task_manager(folder: Path | None, everything: bool) -> "TaskManager":
    """The tasks in a folder; with `everything` also lm-eval's own, whose 12,000 files take seconds to read."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=str(folder) if folder else None, include_defaults=everything)


@cache
def needs_defaults(name: str, folder: Path | None) -> bool:
    """Whether a task is lm-eval's own, or a group in the folder that contains one."""
    if not folder or name not in task_manager(folder, False).all_tasks:
        return True
    try:
        task_manager(folder, False).load([name])
    except KeyError:
        return True
    return False


def load_tasks(name: str, folder: Path | None) -> dict[str, "Task"]:
    """Name → task, of a task, or of all tasks in a group or with a tag."""
    own_tasks = []
    if folder:
        own_tasks = task_manager(folder, False).all_tasks
    if name not in own_tasks and name not in task_manager(folder, True).all_tasks:
        raise UserError(f"{KEY}: lm-eval has no task {name!r}; in include_path: {', '.join(own_tasks) or 'none'}")
    try:
        tasks = task_manager(folder, needs_defaults(name, folder)).load([name])["tasks"]
    except Exception as error:  # a task can run code of its author's, which may raise anything
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{KEY}: {name} cannot be loaded: {text:.300}; its data must be on this machine") from error
    for task in tasks.values():
        check_data(name, task, folder)
        if task.config.unsafe_code:
            raise UserError(f"{KEY}: {name} executes generated code without a sandbox; use evaluation.code for it")
    return tasks


def choose_metrics(entry: str, tasks: dict[str, "Task"]) -> dict[str, tuple[str, str]]:
    """task → (metric, filter) for an entry of the setting `tasks`; by default the first of each."""
    chosen = {}
    requested, _, kind = entry.partition(":")[2].partition(",")
    for name, task in tasks.items():
        higher, filters = task.higher_is_better(), [ensemble.name for ensemble in task._filters]
        means = [
            metric
            for metric, aggregate in task.aggregation().items()
            if aggregate.__name__ == "mean" and higher[metric]
        ]
        metric = requested or next(iter(task.aggregation()), "")
        if metric not in means:
            raise UserError(
                f"{KEY}: {entry}: {name} has no metric {metric!r} that is a mean over items where higher is better; it"
                f" has {', '.join(means) or 'none'}"
            )
        if kind and kind not in filters:
            raise UserError(f"{KEY}: {entry}: {name} has no filter {kind!r}; it has {', '.join(filters)}")
        chosen[name] = (metric, kind or filters[0])
    return chosen


def check_prompts(folder: Path, tasks: dict[str, "Task"], settings: Settings) -> None:
    """Warn of each task whose number of solved examples is fixed."""
    from transformers import AutoTokenizer

    if settings.chat and not AutoTokenizer.from_pretrained(folder).chat_template:
        raise UserError(f"evaluation.lm_eval.chat: {folder} has no chat template; set `chat: false`")
    for name, task in tasks.items():
        if settings.num_fewshot is not None and task.config.num_fewshot == 0 != settings.num_fewshot:
            logging.warning(f"{name} sets num_fewshot to 0 itself, so evaluation.lm_eval.num_fewshot is ignored")


def answer_text(sample: dict, metric: str) -> str:
    """The model's answer as text: what it generated, or the choice with the highest likelihood."""
    answer, requests = sample["filtered_resps"], sample["arguments"]
    if len(requests) < 2 or not all(isinstance(response, tuple | list) for response in answer):
        return str(answer[0] if isinstance(answer, list) and answer else answer)
    # choices differ in what follows the prompt or, in a few tasks, in the prompt
    texts = []
    for context, end in requests:
        texts.append(context if len({end for _, end in requests}) == 1 else end)
    lengths = [len(text.strip()) if metric == "acc_norm" else 1 for text in texts]
    likelihoods = [response[0] / max(1, length) for response, length in zip(answer, lengths, strict=False)]
    return texts[max(range(len(likelihoods)), key=likelihoods.__getitem__)]


def item_of(entry: str, task: str, sample: dict, metric: str, group: bool) -> dict:
    """The item of the suite for an entry of lm-eval's log."""
    value = sample[metric]
    if not isinstance(value, numbers.Real) or not 0 <= value <= 1:
        raise UserError(f"{KEY}: {entry}: {metric} of item {sample['doc_id']} of {task} is {value!r}, not from 0 to 1")
    target, requests = sample["target"], sample["arguments"]
    choice = isinstance(target, int) and 0 <= target < len(requests) > 1
    name = str(sample["doc_id"])
    if group:
        name = f"{task}/{name}"
    return {
        "dataset": entry,
        "id": name,
        "language": task,
        "prompt": str(requests[0][0]),
        "reference": str(requests[target][1] if choice else target),
        "written": [answer_text(sample, metric)],
        "task_score": float(value),
        "content": [sample[f"{part}_hash"] for part in ("doc", "prompt", "target")],
    }


def run_harness(
    model: ScoredModel, tasks: dict[str, dict[str, "Task"]], manager: "TaskManager", settings: Settings
) -> dict[str, dict[str, list[dict]]]:
    """Name of a task or group → task → lm-eval's log of each of its items."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model.folder)
    logged = {}
    for name, group in tasks.items():
        results = lm_eval.simple_evaluate(
            HFLM(pretrained=model.model, tokenizer=tokenizer, batch_size=BATCH),
            tasks=list(group.values()),
            task_manager=manager,
            apply_chat_template=settings.chat,
            bootstrap_iters=0,
            num_fewshot=settings.num_fewshot,
            limit=settings.limit,
        )
        logged[name] = results["samples"]
    return logged


def evaluate(model: Path, settings: Settings, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of a model, and return the latter.

    Each entry of `tasks` is a dataset; the tasks of a group are its `language`s.

    Raises:
        UserError: a task is not there, or cannot be loaded or scored; or the model's files do not match their manifest.
    """
    import lm_eval

    go_offline()
    include_path = None
    if settings.include_path:
        include_path = Path(settings.include_path)
    names = {entry: entry.partition(":")[0] for entry in settings.tasks}
    tasks = {name: load_tasks(name, include_path) for name in dict.fromkeys(names.values())}
    metrics = {entry: choose_metrics(entry, tasks[name]) for entry, name in names.items()}
    loaded = load(model)
    for subset in tasks.values():
        check_prompts(model, subset, settings)
    logged = run_harness(loaded, tasks, task_manager(include_path, include_path is None), settings)
    items, data = [], {}
    for entry, name in names.items():
        rows = []
        for task, (metric, kind) in metrics[entry].items():
            for sample in logged[name][task]:
                if sample["filter"] == kind:
                    rows.append(item_of(entry, task, sample, metric, len(tasks[name]) > 1))
        content = sorted([row["id"], *row.pop("content")] for row in rows)
        data[entry] = hashlib.sha256(repr(content).encode()).hexdigest()
        items += rows
    chosen = {}
    for entry, of_entry in metrics.items():
        chosen[entry] = {task: ",".join(both) for task, both in of_entry.items()}
    engine = {"name": "lm-eval with transformers", "version": lm_eval.__version__}
    facts = {"engine": engine, "settings": to_dict(settings), "task_metrics": chosen}
    return write_scores("lm_eval", SUITE, out, model, items, data, **facts)


if __name__ == "__main__":
    run(command(evaluate))
