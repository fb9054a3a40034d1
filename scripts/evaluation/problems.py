"""Copy a benchmark file out of a repository at a pinned commit.

python -m scripts.evaluation.problems --out results/evaluation/problems/HumanEval.jsonl.gz
    --git https://github.com/openai/human-eval
    --settings '{"commit": "6d43fb980f9fee3c892a914eda09951f772ad10d", "path": "data/HumanEval.jsonl.gz"}'
"""

import json
import tempfile
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.files import atomic
from scripts.experiment.settings.suites import Benchmark
from scripts.sources.providers.git import copy_file


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--git", required=True, help="URL or folder of the repository")
    p.add_argument("--settings", type=json.loads, required=True, help="JSON: commit and path of the file")
    p.add_argument("--out", type=Path, required=True, help="where to write it")
    args = p.parse_args()
    benchmark = Benchmark.parse({**args.settings, "git": args.git}, "--settings")
    with atomic(args.out) as temporary, tempfile.TemporaryDirectory() as work, temporary.open("wb") as out:
        copy_file(benchmark.git, benchmark.commit, benchmark.path, Path(work), out)


if __name__ == "__main__":
    run(main)
