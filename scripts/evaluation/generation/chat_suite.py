"""Suites over chats: prompt = all messages before the last assistant turn, reference = that turn.

    run(lambda: main(Scorer("qa", SUITE, figures), Settings, __doc__))

A suite says what it measures of the completions; its settings, generation, items and scores are the same for all.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.options import given
from scripts.evaluation.generation.examples import pick_examples, solved_before, split_chat, test_hashes
from scripts.evaluation.generation.model import load, write_scores
from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.suites import held_out
from scripts.experiment.settings.record import Names, check_name, to_dict
from scripts.experiment.settings.suites import Generation

CHATS = ("instruct", "chat")  # the kinds of dataset that hold chats


class ChatSettings(Generation):
    datasets: Names | None = Field(
        None,
        description="Datasets of chats from whose test split the prompts are taken; by default those of kind"
        " `instruct` and `chat`.",
    )
    documents: int = Field(200, ge=1, description="Maximum number of chats per dataset and language.")
    few_shot: Names | None = Field(
        None,
        description="Test chats that are shown, with their answers and in this order, before each prompt of their"
        " dataset; they are not scored.",
    )


def chat_datasets(experiment) -> list[str]:
    """The datasets of an experiment that hold chats."""
    return [name for name, dataset in experiment.corpus.compose.items() if dataset.kind in CHATS]


def completed(settings: ChatSettings, experiment) -> ChatSettings:
    if settings.datasets is None:
        chats = [name for name in chat_datasets(experiment) if name in held_out(experiment)]
        return settings.model_copy(update={"datasets": chats})
    return settings


def check(settings: ChatSettings, experiment, key: str) -> None:
    for dataset in settings.datasets:
        check_name(f"{key}.datasets", dataset, chat_datasets(experiment))
    if not settings.datasets:
        raise UserError(f"{key}.datasets: none of kind {' or '.join(CHATS)}")


def prompts(settings: ChatSettings) -> dict:
    chosen = settings.model_dump(include={"datasets", "documents", "few_shot"})
    return {name: value for name, value in chosen.items() if name != "few_shot" or value}


def small(settings: ChatSettings, items: int) -> dict:
    return {"documents": items, "max_new_tokens": 8}


class Scorer(NamedTuple):
    """How a suite scores completions."""

    name: str  # of the suite
    suite: Suite
    figures: Callable[[list[str], str], dict]  # (a completion per sample, the reference) → figures of an item
    facts: Callable[[list[dict]], dict] = lambda items: {}  # items → further content of scores.json


def read_chats(datasets: Path, settings: ChatSettings, suite: str) -> list[tuple[str, dict, list[dict]]]:
    """(dataset, chat, the solved chats before it) of every test chat to score."""
    chats, missing = [], set(settings.few_shot or ())
    for dataset in settings.datasets:
        path = datasets / dataset / "test.jsonl.zst"
        examples = pick_examples(path, settings.documents, settings.few_shot)
        chats_by_id = {}
        if missing:
            chats_by_id = {record["id"]: record for record in read_jsonl(path) if record["id"] in missing}
        if not examples:
            hint = f"take {dataset} out of the evaluation"
            if chats_by_id:
                raise UserError(f"evaluation.{suite}: `few_shot` leaves no chat of {dataset}; {hint}")
            raise UserError(f"{path}: no test example; raise the share of test, or {hint}")
        missing.difference_update(chats_by_id)
        solved = [chats_by_id[name] for name in settings.few_shot or () if name in chats_by_id]
        chats += [(dataset, chat, solved) for chat in examples]
    if missing:
        raise UserError(
            f"evaluation.{suite}.few_shot: no test chat {min(missing)!r} in {', '.join(settings.datasets)}; one is"
            f" {chats[0][1]['id']!r}"
        )
    return chats


def score(scorer: Scorer, folder: Path, datasets: Path, settings: ChatSettings, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of the model in `folder`, and return the latter.

    Args:
        datasets: folder of the composed datasets.

    Raises:
        UserError: a dataset does not exist or has no test chat, or a prompt is too long for the model.
    """
    hashes, chats = test_hashes(datasets, settings.datasets, scorer.name), read_chats(datasets, settings, scorer.name)
    model = load(folder)
    accepted = {id(chat) for chat in model.encoder.accepted([chat for _, chat, _ in chats], scorer.name)}
    chats = [entry for entry in chats if id(entry[1]) in accepted]
    pairs = [split_chat(chat) for _, chat, _ in chats]
    prompts = [solved_before(prompt, solved) for (prompt, _), (*_, solved) in zip(pairs, chats, strict=True)]
    completions, engine = model.generate(prompts, settings, seed, label=scorer.name)
    items = [
        {
            "dataset": dataset,
            "id": chat["id"],
            "language": chat["language"],
            "prompt": prompt[-1]["content"] if prompt else "",
            "reference": reference,
            "written": samples,
            **scorer.figures(samples, reference),
        }
        for (dataset, chat, _), (prompt, reference), samples in zip(chats, pairs, completions, strict=True)
    ]
    facts = {"engine": engine, "settings": to_dict(settings) | {"seed": seed}, **scorer.facts(items)}
    return write_scores(scorer.name, scorer.suite, out, folder, items, hashes, **facts)


def main(scorer: Scorer, settings: type[ChatSettings], doc: str) -> None:
    """The command of such a suite; `settings`: its class."""

    def command(model: Path, datasets: Path, settings: settings, seed: int, out: Path) -> None:
        score(scorer, model, datasets, settings, seed, out)

    command(**given(command, doc))
