"""Benchmarks that come from a repository at a pinned commit: rule `problems` fetches each as a file.

pinned_benchmarks(code)      # {"HumanEval.jsonl.gz": Benchmark(git=..., commit=..., path=...)}
with_files(code, layout)     # the same settings, each of them as the file that rule `problems` makes
"""

from pathlib import Path

from scripts.experiment.layout import Layout
from scripts.experiment.settings.code import Benchmark, Code


def pinned_benchmarks(code: Code | None) -> dict[str, Benchmark]:
    """The benchmarks with a repository, by the name of their file; none without the suite `code`."""
    return {Path(benchmark.path).name: benchmark for benchmark in code.benchmarks if benchmark.git} if code else {}


def with_files(code: Code, layout: Layout) -> Code:
    """The settings with pinned benchmarks as files. So the content decides, wherever the file came from."""

    def as_file(benchmark: Benchmark) -> Benchmark:
        if benchmark.git is None:
            return benchmark
        path = str(layout.problems(Path(benchmark.path).name))
        return benchmark.model_copy(update={"path": path, "git": None, "commit": None})

    return code.model_copy(update={"benchmarks": [as_file(benchmark) for benchmark in code.benchmarks]})
