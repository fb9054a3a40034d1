"""pass@k of a model on benchmarks: the generated code is run under the benchmark's tests, in a sandbox.

    python -m scripts.evaluation.suites.code --model results/training/base --out results/evaluation/code/base \\
        --seed 42 --settings '{"benchmarks": [{"path": "HumanEval.jsonl.gz"}], "k": [1], "samples": 1, "timeout": 10}'

Before anything is generated the sandbox is probed, and some of each benchmark's published solutions are judged. Each
sample is run under the problem's tests (scripts/judge/judge.py). A sample that does not pass counts as
failed; if the tests or the sandbox are at fault, the benchmark is not measured. The counts of each outcome tell which.
"""

import re
from itertools import chain
from pathlib import Path
from typing import Annotated

from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import sha256_file
from scripts.common.options import command
from scripts.evaluation.benchmarks import formats
from scripts.evaluation.benchmarks.prompts import end, program, prompt_of
from scripts.evaluation.generation.model import load, write_scores
from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.metrics.scoring import pass_figures, pass_suite
from scripts.evaluation.suites import About, dataset_of
from scripts.experiment.layout import Layout
from scripts.experiment.settings.record import Number, Text, Unique, to_dict
from scripts.experiment.settings.suites import Benchmark, Generation
from scripts.judge.judge import Judge, judge_all
from scripts.judge.problem import Problem
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.bubblewrap import Limits
from scripts.judge.sandbox.packages import Packages

PLACE = 5
ABOUT = About(
    "Share of problems solved by one of k programs, 0 to 1: written by the model, run in a sandbox against the"
    " problem's tests. More is better.",
    two_cores=True,
)
# of a benchmark out of a repository: part of the path of an output, and so of a command
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
# published solutions of each benchmark, spread over the file, that are judged before anything is generated
CHECKED = 10
GENERATION = {"samples", "temperature", "top_p", "max_new_tokens"}
# of a benchmark, what decides its prompts
PROMPTS = {"path", "few_shot", "ignore", "ids", "exclude", "limit"}


class Settings(Generation):
    """Off unless given. pass@k on benchmarks, whose generated programs run in a sandbox; needs bubblewrap."""

    benchmarks: list[Benchmark] = Field(min_length=1, description="Benchmark files.")
    k: Annotated[list[Annotated[int, Field(ge=1)]], Unique] = Field(
        [1], min_length=1, description="The values of k in pass@k, at most `samples`."
    )
    python: Text | None = Field(
        None,
        description="Folder of a virtual environment, made with this Python, whose packages generated programs and"
        " their tests may import. Without it programs can import only the standard library.",
    )
    timeout: Number = Field(10, gt=0, description="Limit on wall clock and CPU time of one program (seconds).")
    memory_megabytes: int = Field(1024, ge=64, description="Memory limit of one program with all its processes (MB).")


def SUITE(settings: dict) -> Suite:
    """The figures and metrics: a pass@k for each k."""
    return pass_suite(settings["k"])


def datasets(settings: Settings) -> list[str]:
    return [dataset_of(benchmark.path) for benchmark in settings.benchmarks]


def files(settings: Settings) -> list[str]:
    return [benchmark.path for benchmark in settings.benchmarks]


def prompts(settings: Settings) -> dict:
    chosen = [benchmark.model_dump(include=PROMPTS, exclude_defaults=True) for benchmark in settings.benchmarks]
    return {"benchmarks": chosen}


def check(settings: Settings, experiment, key: str) -> None:
    """Check pass@k and the benchmark files. Raises UserError: k exceeds the samples, a file is missing, or two have one
    name; the line starts with `key`."""
    if max(settings.k) > settings.samples:
        raise UserError(f"{key}.k: pass@{max(settings.k)} needs as many `samples`, not {settings.samples}")
    files = {}
    for number, benchmark in enumerate(settings.benchmarks):
        path = Path(benchmark.path)
        if benchmark.git is not None and not FILE_NAME.fullmatch(path.name):
            raise UserError(
                f"{key}.benchmarks.{number}.path: {path.name!r}: a file's name may have letters, digits and `._+-`, and"
                " begins with a letter or digit; rename it in its repository"
            )
        if benchmark.git is None and not path.is_file():
            raise UserError(f"{key}.benchmarks.{number}.path: {path}: no such file")
        first_path = files.setdefault(dataset_of(path), path)
        if first_path is not path:
            raise UserError(f"{key}.benchmarks.{number}.path: {path} has the name of {first_path}; rename one")


def small(settings: Settings, items: int) -> dict:
    benchmarks = [to_dict(benchmark) | {"limit": items} for benchmark in settings.benchmarks]
    return {"max_new_tokens": 64, "benchmarks": benchmarks}


def pinned(settings: Settings | None) -> dict[str, Benchmark]:
    """The benchmarks with a repository, by the name of their file; none without the suite."""
    benchmarks = settings.benchmarks if settings else []
    return {Path(benchmark.path).name: benchmark for benchmark in benchmarks if benchmark.git}


def with_files(settings: Settings, layout: Layout) -> Settings:
    """The settings with pinned benchmarks as files. So the content decides, wherever the file came from."""
    benchmarks = []
    for benchmark in settings.benchmarks:
        if benchmark.git is not None:
            path = str(layout.problems(Path(benchmark.path).name))
            benchmark = benchmark.model_copy(update={"path": path, "git": None, "commit": None})
        benchmarks.append(benchmark)
    return settings.model_copy(update={"benchmarks": benchmarks})


def refuse_benchmark(name: str, problems: list[Problem], judge: Judge) -> None:
    """Refuse a benchmark that this machine cannot judge, as its own solutions show."""
    lacking = {problem.id: missing for problem in problems if (missing := judge.missing(problem))}
    if lacking:
        packages, first = sorted(set().union(*lacking.values())), next(iter(lacking))
        raise UserError(
            f"evaluation.code: {name}: {len(lacking)} problems, such as {first}, need {', '.join(packages)}; name"
            " an environment that has it as evaluation.code.python, or name the problems in `exclude`"
        )
    solved = [problem for problem in problems if problem.canonical is not None and not problem.unjudged]
    count = min(CHECKED, len(solved))
    chosen = [solved[place * len(solved) // count] for place in range(count)]
    programs = [(problem, problem.head + problem.canonical) for problem in chosen]
    verdicts = []
    if programs:
        verdicts = judge_all(judge, programs, f"judge the published solutions of {name}")
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
    programs, pairs = [], []
    for problem, samples in zip(problems, completions, strict=True):
        programs.append([program(problem, text, benchmark.prompt) for text in samples])
        pairs += [(problem, code) for code in programs[-1]]
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
                **pass_figures([verdict.outcome for verdict in of_problem], ks),
            }
        )
    return sorted(items, key=lambda item: item["id"])


def code(model: Path, settings: Settings, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of a model, and return the latter.

    A benchmark is named after its file.

    Raises:
        UserError: a benchmark is unreadable or its published solutions do not pass, a compiler is missing, code cannot
            be isolated here, or the model's files do not match their manifest.
    """
    benchmarks = {dataset_of(benchmark.path): benchmark for benchmark in settings.benchmarks}
    problems = {name: formats.problems_of(benchmark) for name, benchmark in benchmarks.items()}
    sandbox = probe.sandbox()
    limits = Limits(settings.timeout, settings.memory_megabytes << 20)
    judge = Judge(sandbox, limits, Packages.from_environment(settings.python))
    for language in {problem.language for problem in chain.from_iterable(problems.values())}:
        judge.check(language)  # a missing compiler is an error before anything is generated
    for name, of_benchmark in problems.items():
        refuse_benchmark(name, of_benchmark, judge)
    jobs = []
    for name, benchmark in benchmarks.items():
        jobs += [(name, benchmark.prompt, problem) for problem in problems[name]]

    def finished(number: int, text: str) -> bool:
        """Whether a completion has ended; an answer in a chat ends by itself."""
        _, style, problem = jobs[number]
        return style == "completion" and end(problem, text) is not None

    loaded = load(model)
    prompts = [prompt_of(problem, style) for _, style, problem in jobs]
    generation = Generation(**settings.model_dump(include=GENERATION))
    completions, engine = loaded.generate(prompts, generation, seed, finished, "code")
    items = []
    for name, benchmark in benchmarks.items():
        of_benchmark = [samples for (owner, _, _), samples in zip(jobs, completions, strict=True) if owner == name]
        items += score(name, benchmark, problems[name], of_benchmark, judge, settings.k)
    hashes = {name: sha256_file(Path(benchmark.path)) for name, benchmark in benchmarks.items()}
    facts = {"engine": engine, "settings": to_dict(settings) | {"seed": seed}, "sandbox": sandbox.mode}
    return write_scores("code", pass_suite(settings.k), out, model, items, hashes, **facts)


if __name__ == "__main__":
    run(command(code))
