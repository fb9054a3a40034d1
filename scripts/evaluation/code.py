"""pass@k of a model on benchmarks: the generated code is run under the benchmark's tests, in a sandbox.

    python -m scripts.evaluation.code --model results/training/base --out results/evaluation/code/base --seed 42 \\
        --settings '{"benchmarks": [{"path": "HumanEval.jsonl.gz"}], "k": [1], "samples": 1, "timeout": 10}'

Before anything is generated the sandbox is probed, and some of each benchmark's published solutions are judged. Each
sample is run under the problem's tests (scripts/judge/judge.py). A sample that does not pass counts as
failed; if the tests or the sandbox are at fault, the benchmark is not measured. The counts of each outcome tell which.
"""

import logging
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import sha256_file
from scripts.evaluation.benchmarks import formats
from scripts.evaluation.benchmarks.prompts import end, program, prompt_of
from scripts.evaluation.generation.model import arguments, load, write_scores
from scripts.evaluation.metrics.metric import by_language, score_line, summarize
from scripts.evaluation.metrics.pass_at_k import figures, suite
from scripts.experiment.settings.code import Benchmark, Code
from scripts.experiment.settings.generation import Generation
from scripts.experiment.settings.record import to_dict
from scripts.experiment.suites import dataset_of
from scripts.judge.judge import Judge, judge_all
from scripts.judge.problem import Problem
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.bubblewrap import Limits
from scripts.judge.sandbox.libraries import Libraries
from scripts.judge.sandbox.packages import Packages

# where a user gives what a benchmark needs
LIBRARIES = {
    "python": "an environment that has it as evaluation.code.python",
    "java": "a jar that has it in evaluation.code.jars",
    "go": "a vendor folder that has it as evaluation.code.go_vendor (testify: golang-github-stretchr-testify-dev)",
}
# published solutions of each benchmark, spread over the file, that are judged before anything is generated
CHECKED = 10
GENERATION = {"samples", "temperature", "top_p", "max_new_tokens"}


def refuse_benchmark(name: str, problems: list[Problem], judge: Judge) -> None:
    """Refuse a benchmark that this machine cannot judge, as its own solutions show.

    Raises:
        UserError: packages are missing, or a solution does not pass.
    """
    lacking = {problem.id: missing for problem in problems if (missing := judge.missing(problem))}
    if lacking:
        packages, first = sorted(set().union(*lacking.values())), next(iter(lacking))
        raise UserError(
            f"evaluation.code: {name}: {len(lacking)} problems, such as {first}, need {', '.join(packages)}; name"
            f" {LIBRARIES[problems[0].language]}, or name the problems in `exclude`"
        )
    solved = [problem for problem in problems if problem.canonical is not None and not problem.unjudged]
    count = min(CHECKED, len(solved))
    chosen = [solved[place * len(solved) // count] for place in range(count)]
    programs = [(problem, problem.head + problem.canonical) for problem in chosen]
    verdicts = judge_all(judge, programs, f"judge the published solutions of {name}") if programs else []
    failed = [
        f"{problem.id} ({verdict.outcome}: {' '.join(verdict.detail.split())[-120:]})"
        for problem, verdict in zip(chosen, verdicts, strict=True)
        if verdict.outcome != "passed"
    ]
    if failed:
        raise UserError(
            f"evaluation.code: {name}: {len(failed)} of {count} published solutions do not pass here:"
            f" {'; '.join(failed)}; install what they need, or name the problems in the benchmark's `exclude`"
        )


def score(
    name: str, benchmark: Benchmark, problems: list[Problem], completions: list[list[str]], judge: Judge, ks: list[int]
) -> list[dict]:
    """Run every sample under its problem's tests; one item per problem, sorted by id."""
    programs = [
        [program(problem, text, benchmark.prompt) for text in samples]
        for problem, samples in zip(problems, completions, strict=True)
    ]
    pairs = [(problem, code) for problem, codes in zip(problems, programs, strict=True) for code in codes]
    verdicts = iter(judge_all(judge, pairs, f"judge {name}"))
    items = []
    for problem, codes in zip(problems, programs, strict=True):
        of_problem = [next(verdicts) for _ in codes]
        items.append(
            {
                "dataset": name,
                "id": problem.id,
                "language": problem.language,
                "prompt": problem.prompt,
                "reference": problem.canonical or "",
                "written": codes,
                "verdicts": [{"outcome": verdict.outcome, "detail": verdict.detail} for verdict in of_problem],
                **figures([verdict.outcome for verdict in of_problem], ks),
            }
        )
    return sorted(items, key=lambda item: item["id"])


def code(folder: Path, settings: Code, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of the model in `folder`, and return the latter.

    A benchmark is named after its file.

    Raises:
        UserError: a benchmark is unreadable or its published solutions do not pass, a compiler is missing, code cannot
            be isolated here, or the model's files do not match their manifest.
    """
    benchmarks = {dataset_of(benchmark.path): benchmark for benchmark in settings.benchmarks}
    problems = {name: formats.problems_of(benchmark) for name, benchmark in benchmarks.items()}
    sandbox = probe.sandbox()
    limits = Limits(settings.timeout, settings.memory_megabytes << 20)
    libraries = Libraries.from_settings(settings.jars, settings.go_vendor)
    judge = Judge(sandbox, limits, Packages.from_environment(settings.python), libraries)
    for language in {problem.language for subset in problems.values() for problem in subset}:
        judge.check(language)  # a missing compiler is an error before anything is generated
    for name, of_benchmark in problems.items():
        refuse_benchmark(name, of_benchmark, judge)
    jobs = [(name, benchmark.prompt, problem) for name, benchmark in benchmarks.items() for problem in problems[name]]

    def finished(number: int, text: str) -> bool:
        """Whether a completion has ended; an answer in a chat ends by itself."""
        _, style, problem = jobs[number]
        return style == "completion" and end(problem, text) is not None

    model, measured = load(folder), suite(settings.k)
    prompts = [prompt_of(problem, style) for _, style, problem in jobs]
    generation = Generation(**settings.model_dump(include=GENERATION))
    completions, engine = model.generate(prompts, generation, seed, finished, "code")
    items, scores = [], {}
    for name, benchmark in benchmarks.items():
        of_benchmark = [samples for (owner, _, _), samples in zip(jobs, completions, strict=True) if owner == name]
        rows = score(name, benchmark, problems[name], of_benchmark, judge, settings.k)
        scores[name] = by_language(rows, lambda subset: summarize(measured, subset))
        items += rows
        logging.info(score_line("code", name, measured, scores[name]["all"]))
    hashes = {name: sha256_file(Path(benchmark.path)) for name, benchmark in benchmarks.items()}
    facts = {"engine": engine, "settings": to_dict(settings) | {"seed": seed}, "sandbox": sandbox.mode}
    return write_scores(out, folder, items, hashes, scores, **facts)


def main() -> None:
    args = arguments(__doc__, Code).parse_args()
    code(args.model, args.settings, args.seed, args.out)


if __name__ == "__main__":
    run(main)
