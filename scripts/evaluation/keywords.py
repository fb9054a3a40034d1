"""Keywords in the code that a model writes when asked: in the response as given, and in the form of its code.

    python -m scripts.evaluation.keywords --model results/training/base \\
        --settings '{"cases": "config/cases/keywords.yaml", "max_new_tokens": 512, "temperature": 0, "top_p": 1,
                     "repetition_penalty": 1.0, "beams": 1, "samples": 1, "seed": 42}' \\
        --out results/evaluation/keywords/base

`keywords` is the share of a case's keywords that the response mentions, `structure` the share that its code shows with
comments and strings left out (scripts/evaluation/metrics/code_keywords.py). Neither says that the code works. Of
several samples they are means.
"""

from pathlib import Path
from statistics import fmean

from scripts.common.cli import run
from scripts.common.files import sha256_file
from scripts.evaluation.generation.examples import read_cases
from scripts.evaluation.generation.model import command, load, write
from scripts.evaluation.metrics.code_keywords import SUITE, code_of, mentioned, shown
from scripts.evaluation.metrics.metric import by_language, summarize
from scripts.experiment.suites import dataset_of


def figures(written: list[str], case: dict) -> dict[str, float]:
    """The means over samples of what SUITE sums."""
    words, language = case["keywords"], case["language"]
    return {
        "keywords": fmean(fmean(mentioned(text, words)) for text in written),
        "structure": fmean(fmean(shown(code_of(text), language, words)) for text in written),
    }


def keywords(folder: Path, path: Path, wanted: dict, out: Path, python: str | None = None) -> dict:
    """Write `items.jsonl.zst` and `scores.json`, and return the latter. The dataset has the name of the file of cases.

    Raises:
        UserError: the cases are malformed.
    """
    cases, subject, dataset = read_cases(path), load(folder, python), dataset_of(path)
    prompts = [[{"role": "user", "content": case["prompt"]}] for case in cases]
    written, engine = subject.answers(prompts, wanted, label="keywords")
    items = [
        {
            "dataset": dataset,
            **{key: case[key] for key in ("id", "language", "prompt")},
            "reference": ", ".join(case["keywords"]),
            "written": texts,
            **figures(texts, case),
        }
        for case, texts in zip(cases, written, strict=True)
    ]
    scores = {dataset: by_language(items, lambda some: summarize(SUITE, some))}
    return write(out, subject, items, {dataset: sha256_file(path)}, scores, engine=engine, settings=wanted)


def main() -> None:
    given = command(__doc__).parse_args()
    keywords(given.model, Path(given.settings["cases"]), given.settings, given.out, given.vllm)


if __name__ == "__main__":
    run(main)
