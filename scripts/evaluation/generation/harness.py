"""Run tasks of lm-eval on a model, with transformers in this process or with vLLM in its own environment.

    logged, engine = run_harness(model, tasks, defaults, manager, settings)

With vLLM it is lm-eval's own vLLM backend that runs, so that environment has lm-eval too, in the version of this one:
another version may prompt in another way.
"""

from pathlib import Path

import lm_eval
from lm_eval.api.task import Task
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from transformers import AutoTokenizer

from scripts.common.errors import UserError
from scripts.evaluation.generation.model import ScoredModel
from scripts.evaluation.generation.vllm_engine import run_worker
from scripts.experiment.settings.evaluation import LmEval

WORKER = Path(__file__).with_name("harness_worker.py")
SAME = {"num_fewshot", "limit"}  # settings that lm-eval has by the same name

Logged = dict[str, dict[str, list[dict]]]  # entry → task → lm-eval's log of each of its items


def chosen_items(settings: LmEval) -> dict[str, list[int]] | None:
    """The items to score by task; lm-eval takes their numbers for those of other items where they do not ascend."""
    return settings.ids and {task: sorted(ids) for task, ids in settings.ids.items()}


def run_harness(
    model: ScoredModel,
    tasks: dict[str, dict[str, Task]],
    defaults: dict[str, bool],
    manager: TaskManager,
    settings: LmEval,
) -> tuple[Logged, dict]:
    """lm-eval's log of each item, and the engine's name and version.

    Args:
        tasks: name of a task, group or tag → its tasks.
        defaults: the same names → whether lm-eval's own tasks are needed to load it.

    Raises:
        UserError: see `run_with_vllm`.
    """
    if model.vllm_python:
        return run_with_vllm(model, defaults, settings)
    tokenizer = AutoTokenizer.from_pretrained(model.folder)
    logged = {
        name: lm_eval.simple_evaluate(
            HFLM(pretrained=model.model, tokenizer=tokenizer, batch_size=settings.batch),
            tasks=list(group.values()),
            task_manager=manager,
            apply_chat_template=settings.chat,
            bootstrap_iters=0,
            samples=chosen_items(settings),
            **settings.model_dump(include=SAME),
        )["samples"]
        for name, group in tasks.items()
    }
    return logged, {"name": "lm-eval with transformers", "version": lm_eval.__version__}


def run_with_vllm(model: ScoredModel, defaults: dict[str, bool], settings: LmEval) -> tuple[Logged, dict]:
    """As `run_harness`; the model here is unloaded.

    Raises:
        UserError: vLLM's environment has another version of lm-eval, or see `run_worker`.
    """
    with model.unloaded() as (folder, precision):
        arguments = {
            "pretrained": str(folder.resolve()),
            "tokenizer": str(model.folder.resolve()),
            "dtype": precision,
            "max_model_len": model.positions,
            "generation_config": "vllm",  # not the folder's own defaults
        }
        request = {
            "lm_eval": lm_eval.__version__,
            "model": arguments,
            "tasks": defaults,
            "include_path": settings.include_path,
            "chat": settings.chat,
            "ids": chosen_items(settings),
            **settings.model_dump(include=SAME),
        }
        reply = run_worker(model.vllm_python, request, WORKER)
    if reply["lm_eval"] != lm_eval.__version__:
        raise UserError(
            f"{model.vllm_python}: lm-eval {reply['lm_eval']} there, {lm_eval.__version__} here; install"
            f" lm-eval=={lm_eval.__version__} there"
        )
    return reply["samples"], {"name": f"lm-eval with vllm {reply['vllm']}", "version": lm_eval.__version__}
