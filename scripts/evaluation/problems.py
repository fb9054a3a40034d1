"""Copy a benchmark file out of a repository at a pinned commit.

python -m scripts.evaluation.problems --out results/evaluation/problems/HumanEval.jsonl.gz
    --git https://github.com/openai/human-eval
    --settings '{"commit": "6d43fb980f9fee3c892a914eda09951f772ad10d", "path": "data/HumanEval.jsonl.gz"}'
"""

import tempfile
from pathlib import Path

from scripts.common.cli import run
from scripts.common.files import atomic
from scripts.common.options import command
from scripts.experiment.settings.suites import Benchmark
from scripts.sources.providers.git import copy_file


def problem_file(git: str, settings: dict, out: Path) -> None:
    """Write the file of `settings`, its commit and path, out of the repository `git`, a URL or a folder."""
    benchmark = Benchmark.parse({**settings, "git": git}, "--settings")
    with atomic(out) as temporary, tempfile.TemporaryDirectory() as work, temporary.open("wb") as file:
        copy_file(benchmark.git, benchmark.commit, benchmark.path, Path(work), file)


if __name__ == "__main__":
    run(command(problem_file))
