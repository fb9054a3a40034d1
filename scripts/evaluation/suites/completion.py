"""Score how well a model completes held-out files: a line, or the body of a function.

    python -m scripts.evaluation.suites.completion --model results/training/base --seed 42 \\
        --tasks results/evaluation/completion_tasks/tasks.jsonl.zst \\
        --settings '{"dataset": "code", "form": "fim", "max_new_tokens": 256}' \\
        --out results/evaluation/completion/base

A prompt is the file around the answer, cut at line ends to `prompt_characters`: with `form: fim` as fill-in-the-middle,
with `form: plain` the text before the answer alone. Each size of task is a dataset.

A fill-in-the-middle completion counts whole, so a model must stop in the right place; generation ends early where the
completion has left the region. A plain continuation cannot know where to stop and is cut there
(scripts/evaluation/code_tasks/answers.py). The metrics are those of CrossCodeEval, and two more.
"""

import math
import re
from pathlib import Path
from statistics import fmean

import numpy as np
from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, sha256_file
from scripts.common.options import command
from scripts.evaluation.code_tasks.answers import (
    SIZES,
    Task,
    after_retrieved,
    check_form,
    prompt_of,
    prompt_text,
    write_answers,
)
from scripts.evaluation.generation.examples import Prompt
from scripts.evaluation.generation.model import ScoredModel, load, write_scores
from scripts.evaluation.metrics.metric import Metric, Suite, means, summarize
from scripts.evaluation.suites import About
from scripts.evaluation.suites.perplexity import share
from scripts.experiment.settings.record import Record, check_name, to_dict
from scripts.experiment.settings.suites import InPlace
from scripts.languages import completions as languages

PLACE = 6
ABOUT = About(
    "Code written in place in held-out files, by the size of what was to be written. Each 0 to 1, more is better:"
    " share that is the file's own code line by line, edit similarity, F1 over identifiers, share that parses. Less is"
    " better: bits per byte of the file's own code.",
    share=False,
    tasks="completion_tasks",
)

QUOTED = re.compile(r"""(["'`])(?:\\.|(?!\1).)*\1""")
IDENTIFIER = re.compile(r"\b[_a-zA-Z][_a-zA-Z0-9]*\b")
MEANS = ("completion_match", "edit_similarity", "identifier_f1")
SUITE = Suite(
    figures=dict.fromkeys((*MEANS, "parses", "answer_nll", "answer_bytes", "not_blank"), 1),
    metrics=means(*MEANS).metrics
    | {
        # both are shares of an item's samples
        "parses": Metric(lambda sums: share(sums[..., 3], sums[..., 6]), "above", size_column=6, highest=1.0),
        "answer_bits_per_byte": Metric(
            lambda sums: sums[..., 4] / math.log(2) / np.maximum(sums[..., 5], 1), "below", size_column=5
        ),
    },
    compared=("completion_match", "edit_similarity", "answer_bits_per_byte"),
    graded="edit_similarity",
    data_figures=("answer_bytes",),
)


class CompletionTasks(Record):
    """Which parts of the held-out code the model has to write."""

    dataset: str | None = Field(
        None, description="Dataset of kind `code` from whose test split the files are taken; by default the first one."
    )
    tasks: int = Field(50, ge=1, description="Maximum number of tasks of each size and language.")
    retrieval: bool = Field(
        False,
        description="Whether each answer is also written after training code that BM25 finds for what stands before.",
    )


class Settings(InPlace, CompletionTasks):
    """Off unless given (`completion: {}` for the defaults). The model writes lines and functions of held-out
    files in place."""


def code_datasets(experiment) -> list[str]:
    """The datasets that the files can be taken from."""
    return [name for name, dataset in experiment.corpus.compose.items() if dataset.kind == "code"]


def completed(settings: Settings, experiment) -> Settings:
    if settings.dataset is None:
        return settings.model_copy(update={"dataset": next(iter(code_datasets(experiment)), None)})
    return settings


def datasets(settings: Settings) -> list[str]:
    return list(SIZES)


def check(settings: Settings, experiment, key: str) -> None:
    if not code_datasets(experiment):
        raise UserError(f"{key}.dataset: no dataset of kind `code` here; add one to corpus.compose")
    check_name(f"{key}.dataset", settings.dataset, code_datasets(experiment))


def small(settings: Settings, items: int) -> dict:
    return {"tasks": 1, "max_new_tokens": 8}


def answer_likelihoods(model: ScoredModel, tasks: list[Task], prompts: list[Prompt]) -> np.ndarray:
    """float64 [tasks]: the negative log-likelihood (nats) of each answer after its prompt, without an end of text.

    Prompt and answer are in the tokens of both together: what healing takes back of the prompt is encoded with the
    answer. Tokens that hold a part of the answer are scored, the first of which may hold the prompt's last blanks.
    """
    from scripts.evaluation.generation.likelihood import negative_log_likelihood
    from scripts.evaluation.generation.transformers_engine import encode
    from scripts.tokens.tokenization.encoder import Encoded

    ids, targets, offsets = [], [], [0]
    for task, prompt in zip(tasks, prompts, strict=True):
        start = encode(model.encoder, prompt)
        rest = np.array(model.encoder.continuation(f"{start.due.decode()}{task.answer}"), np.uint32)
        ids += [np.array(start.ids, np.uint32), rest]
        targets += [np.zeros(len(start.ids), bool), np.cumsum(model.encoder.bytes_of[rest]) > len(start.due)]
        offsets.append(offsets[-1] + len(start.ids) + len(rest))
    encoded = Encoded(np.concatenate(ids), np.concatenate(targets), np.array(offsets))
    longest = model.model.config.max_position_embeddings
    return negative_log_likelihood(model.model, encoded, longest, longest, "completion answers")


def completion_match(completion: str, answer: str) -> bool:
    """Whether both have the same lines, without indentation and empty lines."""
    from scripts.evaluation.code_tasks.regions import code_lines  # imports tree-sitter

    return code_lines(completion) == code_lines(answer)


def edit_similarity(completion: str, answer: str) -> float:
    """rapidfuzz's ratio of both texts, 0 to 1, white space around them aside; a line may end in LF or CRLF."""
    from rapidfuzz import fuzz  # each start of the workflow imports all suites

    both = [text.replace("\r\n", "\n").strip() for text in (completion, answer)]
    return fuzz.ratio(*both) / 100


def identifiers(text: str, language: str) -> set[str]:
    """The words of a text outside strings that are no keyword of the language; all words where it has no grammar."""
    if language not in languages():
        return set(IDENTIFIER.findall(QUOTED.sub("", text)))
    from scripts.corpus.instruct.grammars import grammar  # imports all grammars

    known, rules = grammar(language)[0].language, languages()[language]
    words = set(IDENTIFIER.findall(rules.strings.sub("", text)))
    return {word for word in words if word in rules.names_too or known.id_for_node_kind(word, False) is None}


def identifier_f1(completion: str, answer: str, language: str) -> float:
    """F1 of the sets of identifiers, 0 to 1; 0 if they have none in common."""
    predicted, expected = identifiers(completion, language), identifiers(answer, language)
    common = len(predicted & expected)
    if common:
        return 2 * common / (len(predicted) + len(expected))
    return 0.0


def errors(text: str, language: str) -> int:
    """Bytes in syntax errors; a missing token counts as one."""
    from scripts.corpus.instruct.grammars import error_bytes, grammar  # imports all grammars

    root = grammar(language)[0].parse(text.encode()).root_node
    missing, nodes = 0, [root]
    while nodes:
        node = nodes.pop()
        missing += node.is_missing
        nodes += [child for child in node.children if child.has_error]
    return error_bytes(root) + missing


def parses(before: str, completion: str, answer: str, after: str, language: str) -> bool:
    """Whether the file with the completion has no more syntax errors than with the answer."""
    return errors(before + completion + after, language) <= errors(before + answer + after, language)


def figures(task: Task, completions: list[str]) -> dict[str, float]:
    """The figures of an item but for the likelihood: means over samples."""
    answer, language = task.answer, task.language
    written = []  # what can be parsed
    if language in languages():
        written = [text for text in completions if text.strip()]
    parsing = [parses(task.before, text, answer, task.after, language) for text in written]
    return {
        "completion_match": fmean(completion_match(text, answer) for text in completions),
        "edit_similarity": fmean(edit_similarity(text, answer) for text in completions),
        "identifier_f1": fmean(identifier_f1(text, answer, language) for text in completions),
        "parses": sum(parsing) / len(completions),
        "not_blank": len(written) / len(completions),
    }


def completion(model: Path, tasks: Path, settings: Settings, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of a model, and return the latter.

    Args:
        tasks: file of listed.

    Raises:
        UserError: the tokenizer has no tokens for fill-in-the-middle, or a prompt is too long for the model.
    """
    listed = [Task(**record) for record in read_jsonl(tasks)]
    loaded = load(model)
    check_form(loaded, settings, "evaluation.completion")
    prompts = [prompt_of(task, settings) for task in listed]
    likelihoods = answer_likelihoods(loaded, listed, prompts)
    completions, engine = write_answers(loaded, listed, prompts, settings, seed, "completion")
    retrieved = []
    if settings.retrieval:
        longer = [after_retrieved(task.retrieved, prompt) for task, prompt in zip(listed, prompts, strict=True)]
        retrieved, _ = write_answers(loaded, listed, longer, settings, seed, "completion, retrieval")
    items = []
    for task, prompt, nll, samples in zip(listed, prompts, likelihoods, completions, strict=True):
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
    for item, task, samples in zip(items, listed, retrieved, strict=False):  # none without retrieval
        of_retrieval = figures(task, samples)
        item["retrieval"] = {"retrieved": task.retrieved, "written": samples, "figures": of_retrieval}
    sources = {}
    sizes = [size for size in SIZES if any(task.size == size for task in listed)]  # no functions without a grammar
    for dataset in sizes:
        for source in sorted({item["source"] for item in items}):
            subset = [item for item in items if (item["dataset"], item["source"]) == (dataset, source)]
            if subset:
                sources.setdefault(source, {})[dataset] = summarize(SUITE, subset)
    facts = {"engine": engine, "settings": to_dict(settings) | {"seed": seed}, "by_source": sources}
    return write_scores("completion", SUITE, out, model, items, dict.fromkeys(sizes, sha256_file(tasks)), **facts)


if __name__ == "__main__":
    run(command(completion))
