"""Score how well a model completes held-out files: a line, or the body of a function.

    python -m scripts.evaluation.completion --model results/training/base --seed 42 \\
        --tasks results/evaluation/completion_tasks/tasks.jsonl.zst \\
        --settings '{"dataset": "code", "form": "fim", "max_new_tokens": 256}' \\
        --out results/evaluation/completion/base

A prompt is the file around the answer, cut at line ends to `prompt_characters`: with `form: fim` as fill-in-the-middle,
with `form: plain` the text before the answer alone. Each size of task is a dataset.

A fill-in-the-middle completion counts whole, so a model must stop in the right place; generation ends early where the
completion has left the region. A plain continuation cannot know where to stop and is cut there
(scripts/evaluation/code_tasks/answers.py). Metrics: scripts/evaluation/metrics/code_completion.py.
"""

import logging
from pathlib import Path
from statistics import fmean

import numpy as np

from scripts.common.cli import run
from scripts.common.files import read_jsonl, sha256_file
from scripts.evaluation.code_tasks.answers import check_form, prompt_of, prompt_text, write_answers
from scripts.evaluation.code_tasks.regions import SIZES
from scripts.evaluation.code_tasks.task import Task
from scripts.evaluation.generation.likelihood import negative_log_likelihood
from scripts.evaluation.generation.model import ScoredModel, arguments, load, write_scores
from scripts.evaluation.generation.transformers_engine import Prompt, encode
from scripts.evaluation.metrics import code_completion
from scripts.evaluation.metrics.metric import by_language, score_line, summarize
from scripts.experiment.settings.evaluation import Completion
from scripts.experiment.settings.record import to_dict
from scripts.tokens.packing.encoder import Encoded


def answer_likelihoods(model: ScoredModel, tasks: list[Task], prompts: list[Prompt]) -> np.ndarray:
    """float64 [tasks]: the negative log-likelihood (nats) of each answer after its prompt, without an end of text."""
    ids, targets, offsets = [], [], [0]
    for task, prompt in zip(tasks, prompts, strict=True):
        before, answer = encode(model.encoder, prompt)[0], model.encoder.continuation(task.answer)
        ids += [np.array(before, np.uint32), np.array(answer, np.uint32)]
        targets += [np.zeros(len(before), bool), np.ones(len(answer), bool)]
        offsets.append(offsets[-1] + len(before) + len(answer))
    encoded = Encoded(np.concatenate(ids), np.concatenate(targets), np.array(offsets))
    longest = model.model.config.max_position_embeddings
    return negative_log_likelihood(model.model, encoded, longest, longest, "completion answers")


def figures(task: Task, completions: list[str]) -> dict[str, float]:
    """The figures of an item but for the likelihood: means over samples."""
    answer, language = task.answer, task.language
    written = [text for text in completions if text.strip()]
    parsing = [code_completion.parses(task.before, text, answer, task.after, language) for text in written]
    return {
        "completion_match": fmean(code_completion.completion_match(text, answer) for text in completions),
        "edit_similarity": fmean(code_completion.edit_similarity(text, answer) for text in completions),
        "identifier_f1": fmean(code_completion.identifier_f1(text, answer, language) for text in completions),
        "parses": sum(parsing) / len(completions),
        "not_blank": len(written) / len(completions),
    }


def completion(folder: Path, path: Path, settings: Completion, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of the model in `folder`, and return the latter.

    Args:
        path: file of tasks.

    Raises:
        UserError: the tokenizer has no tokens for fill-in-the-middle, or a prompt is too long for the model.
    """
    tasks = [Task(**record) for record in read_jsonl(path)]
    model = load(folder)
    check_form(model, settings, "evaluation.completion")
    prompts = [prompt_of(task, settings) for task in tasks]
    likelihoods = answer_likelihoods(model, tasks, prompts)
    completions, engine = write_answers(model, tasks, prompts, settings, seed, "completion")
    items = []
    for task, prompt, nll, samples in zip(tasks, prompts, likelihoods, completions, strict=True):
        items.append(
            {
                "dataset": task.size,
                "id": task.id,
                "language": task.language,
                "source": task.source,
                "prompt": prompt_text(prompt),
                "reference": task.answer,
                "written": samples,
                **figures(task, samples),
                "answer_nll": float(nll),
                "answer_bytes": len(task.answer.encode()),
            }
        )
    scores = {}
    for dataset in SIZES:
        of_dataset = [item for item in items if item["dataset"] == dataset]
        scores[dataset] = by_language(of_dataset, lambda subset: summarize(code_completion.SUITE, subset))
        logging.info(score_line("completion", dataset, code_completion.SUITE, scores[dataset]["all"]))
    sources = {}
    for dataset in scores:
        for source in sorted({item["source"] for item in items}):
            if subset := [item for item in items if (item["dataset"], item["source"]) == (dataset, source)]:
                sources.setdefault(source, {})[dataset] = summarize(code_completion.SUITE, subset)
    facts = {"engine": engine, "settings": to_dict(settings) | {"seed": seed}, "by_source": sources}
    data = dict.fromkeys(scores, sha256_file(path))
    return write_scores(out, folder, items, data, scores, **facts)


def main() -> None:
    parser = arguments(__doc__, Completion)
    parser.add_argument("--tasks", type=Path, required=True, help="file of tasks")
    args = parser.parse_args()
    completion(args.model, args.tasks, args.settings, args.seed, args.out)


if __name__ == "__main__":
    run(main)
