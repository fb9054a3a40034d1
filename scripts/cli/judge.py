"""`stagecraft judge`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from scripts.cli.command.options import File, Folder

Several = Parameter(consume_multiple=True, negative=())


def judge(
    benchmark: File,
    generations: File,
    /,
    *,
    out: Folder = Path("results/judge"),
    base: bool = False,
    timeout: float = 10,
    memory: int = 1024,
    packages: Folder | None = None,
    jars: Annotated[list[File] | None, Several] = None,
    go_vendor: Folder | None = None,
    ignore: Annotated[list[str] | None, Several] = None,
    format: File | None = None,
) -> None:
    """Judge programs that were generated before, problem by problem, and compare with their published outcomes.

    It reads the files of EvalPlus, bigcode-evaluation-harness, LiveCodeBench and this project. For example:

        stagecraft judge MbppPlus.jsonl samples.jsonl

    Args:
        benchmark: The file of the benchmark.
        generations: The file of the programs.
        out: The folder for verdicts.jsonl.zst.
        base: Compare with EvalPlus' base outcomes, those of the original benchmark.
        timeout: Seconds of one program.
        memory: Megabytes of one program.
        packages: The Python environment whose packages programs and tests may import.
        jars: Jars that Java programs and tests may use.
        go_vendor: The vendor folder of a Go module, for Go programs and tests.
        ignore: Fields of the benchmark that hold no tests.
        format: The YAML file of the benchmark's format, if it is one of your own.
    """
    from scripts.evaluation.commands.judge_generations import judge_file
    from scripts.experiment.settings.code import Benchmark
    from scripts.judge.judge import Judge
    from scripts.judge.sandbox import probe
    from scripts.judge.sandbox.bubblewrap import Limits
    from scripts.judge.sandbox.libraries import Libraries
    from scripts.judge.sandbox.packages import Packages

    own_format = None if format is None else str(format)
    environment = None if packages is None else str(packages)
    vendor = None if go_vendor is None else str(go_vendor)
    problems = Benchmark(path=str(benchmark), ignore=ignore or [], format=own_format, unjudged="count")
    libraries = Libraries.from_settings([str(jar) for jar in jars or []], vendor)
    limits = Limits(timeout, memory << 20)
    judge = Judge(probe.sandbox(), limits, Packages.from_environment(environment), libraries)
    judge_file(problems, generations, out, base, judge)
