"""Keywords in what a model writes on request, ignoring case.

    python -m scripts.evaluation.suites.keywords --model results/training/base --seed 42 \\
        --settings '{"cases": "config/cases/keywords.yaml", "max_new_tokens": 512}' \\
        --out results/evaluation/keywords/base

`keywords` is the share of a case's keywords that the completion mentions, over several samples their mean. It does not
say that the code works.
"""

from pathlib import Path
from statistics import fmean

from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import sha256_file
from scripts.common.options import command
from scripts.evaluation.generation.examples import Case, read_cases
from scripts.evaluation.generation.model import load, write_scores
from scripts.evaluation.metrics.metric import means
from scripts.evaluation.suites import About, dataset_of
from scripts.experiment.settings.record import Text, to_dict
from scripts.experiment.settings.suites import Generation

PLACE = 4
ABOUT = About(
    "Share of the expected keywords that a response mentions, 0 to 1. More is better, but it does not say that the code"
    " works."
)
SUITE = means("keywords")


class Settings(Generation):
    """Off unless given (`keywords: {}` for the defaults). Checks whether generated code contains the keywords of a
    case."""

    cases: Text = Field(
        "config/cases/keywords.yaml",
        description="File of cases: a mapping from a case's name to its `language`, `prompt` and `keywords`. In"
        " scores the dataset is named after the file, without its extension.",
    )


def datasets(settings: Settings) -> list[str]:
    return [dataset_of(settings.cases)]


def files(settings: Settings) -> list[str]:
    return [settings.cases]


def prompts(settings: Settings) -> dict:
    return {"cases": settings.cases}


def check(settings: Settings, experiment, key: str) -> None:
    if not Path(settings.cases).is_file():
        raise UserError(f"{key}.cases: no file {settings.cases}")


def small(settings: Settings, items: int) -> dict:
    return {"max_new_tokens": 8}


def share_mentioned(completions: list[str], case: Case) -> float:
    """The share of a case's keywords that a completion mentions, ignoring case; a mean over samples."""
    shares = []
    for text in completions:
        shares.append(fmean(keyword.casefold() in text.casefold() for keyword in case.keywords))
    return fmean(shares)


def keywords(model: Path, settings: Settings, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of a model, and return the latter.

    The dataset is named after the file of cases.

    Raises:
        UserError: the cases are malformed.
    """
    path = Path(settings.cases)
    cases, dataset = read_cases(path), dataset_of(path)
    loaded = load(model)
    prompts = [[{"role": "user", "content": case.prompt}] for case in cases]
    completions, engine = loaded.generate(prompts, settings, seed, label="keywords")
    items = [
        {
            "dataset": dataset,
            "id": case.id,
            "language": case.language,
            "prompt": case.prompt,
            "reference": ", ".join(case.keywords),
            "written": samples,
            "keywords": share_mentioned(samples, case),
        }
        for case, samples in zip(cases, completions, strict=True)
    ]
    facts = {"engine": engine, "settings": to_dict(settings) | {"seed": seed}}
    return write_scores("keywords", SUITE, out, model, items, {dataset: sha256_file(path)}, **facts)


if __name__ == "__main__":
    run(command(keywords))
