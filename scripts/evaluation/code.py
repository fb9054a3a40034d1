"""pass@k of a model on benchmarks of generated code, which is run in a sandbox.

    python -m scripts.evaluation.code --model results/training/base --out results/evaluation/code/base --settings
        '{"benchmarks": [{"path": "HumanEval.jsonl.gz", "prompt": "completion"}], "k": [1], "samples": 1,
        "temperature": 0, "top_p": 1, "max_new_tokens": 512, "seed": 42, "timeout": 10, "memory_megabytes": 1024}'

The sandbox is probed before anything is generated. Samples are scored by what became of them under the problem's tests
(`judge.py`); all that did not pass count as not passed, whether the code or a missing library is at fault, and the
counts of each outcome say which.
"""

import logging
from pathlib import Path

from scripts.common.cli import run
from scripts.common.files import sha256_file
from scripts.evaluation.benchmarks import formats
from scripts.evaluation.benchmarks.formats import Problem
from scripts.evaluation.benchmarks.prompts import end, program, prompt_of
from scripts.evaluation.generation.model import command, load, write
from scripts.evaluation.metrics.metric import by_language, summarize
from scripts.evaluation.metrics.pass_at_k import figures, suite
from scripts.evaluation.sandbox import probe
from scripts.evaluation.sandbox.judge import Judge, judge_all
from scripts.experiment.suites import dataset_of


def scored(
    name: str, problems: list[Problem], written: list[list[str]], style: str, judge: Judge, ks: list[int]
) -> list[dict]:
    """Judge every sample; one item a problem, sorted by id."""
    codes = [
        [program(problem, text, style) for text in texts] for problem, texts in zip(problems, written, strict=True)
    ]
    rows = [(problem, code) for problem, found in zip(problems, codes, strict=True) for code in found]
    verdicts = iter(judge_all(judge, rows, f"judge {name}"))
    items = []
    for problem, found in zip(problems, codes, strict=True):
        judged = [next(verdicts) for _ in found]
        items.append(
            {
                "dataset": name,
                "id": problem.id,
                "language": problem.language,
                "prompt": problem.prompt,
                "reference": problem.canonical or "",
                "written": found,
                "verdicts": [{"outcome": verdict.outcome, "detail": verdict.detail} for verdict in judged],
                **figures([verdict.outcome for verdict in judged], ks),
            }
        )
    return sorted(items, key=lambda item: item["id"])


def evaluate(folder: Path, wanted: dict, out: Path, python: str | None = None) -> dict:
    """Write `items.jsonl.zst` and `scores.json`, and return the latter. A benchmark is named by its file.

    Raises:
        UserError: a benchmark is unreadable, a compiler is missing, code cannot be isolated here, or the model's files
            are not what their manifest says.
    """
    files = {dataset_of(one["path"]): one for one in wanted["benchmarks"]}
    problems = {name: formats.read(Path(benchmark["path"])) for name, benchmark in files.items()}
    sandbox = probe.sandbox()
    judge = Judge(sandbox, wanted)
    for language in {problem.language for found in problems.values() for problem in found} - {"python"}:
        judge.compilers.of(language)
    asked = [(name, benchmark["prompt"], problem) for name, benchmark in files.items() for problem in problems[name]]
    prompts = [prompt_of(problem, style) for _, style, problem in asked]

    def finished(number: int, text: str) -> bool:
        """Whether a completion has ended; an answer in a chat ends by itself."""
        _, style, problem = asked[number]
        return style == "completion" and end(problem, text) is not None

    subject, measured = load(folder, python), suite(wanted["k"])
    sampling = {**wanted, "repetition_penalty": 1.0, "beams": 1}
    written, engine = subject.answers(prompts, sampling, finished, "code")
    items, scores = [], {}
    for name, benchmark in files.items():
        mine = [texts for (owner, _, _), texts in zip(asked, written, strict=True) if owner == name]
        rows = scored(name, problems[name], mine, benchmark["prompt"], judge, wanted["k"])
        scores[name] = by_language(rows, lambda some: summarize(measured, some))
        items += rows
        logging.info(f"code {name}: {scores[name]}")
    hashes = {name: sha256_file(Path(benchmark["path"])) for name, benchmark in files.items()}
    return write(out, subject, items, hashes, scores, engine=engine, settings=wanted, sandbox=sandbox.mode)


def main() -> None:
    given = command(__doc__).parse_args()
    evaluate(given.model, given.settings, given.out, given.vllm)


if __name__ == "__main__":
    run(main)
