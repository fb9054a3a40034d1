"""Rule problems: a benchmark file as it stands in a repository at a pinned commit.

python -m scripts.evaluation.problems --out results/evaluation/problems/HumanEval.jsonl.gz --settings
    '{"git": "https://github.com/openai/human-eval", "commit": "6d43fb980f9fee3c892a914eda09951f772ad10d",
    "path": "data/HumanEval.jsonl.gz"}'
"""

import tempfile
from pathlib import Path

from scripts.common.cli import parser, run, settings
from scripts.common.files import atomic
from scripts.sources.providers.git import copy_file


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--settings", type=settings, required=True, help="git, commit and path of the file")
    arguments.add_argument("--out", type=Path, required=True, help="where it is to lie")
    given = arguments.parse_args()
    wanted = given.settings
    with atomic(given.out) as temporary, tempfile.TemporaryDirectory() as work, temporary.open("wb") as out:
        copy_file(wanted["git"], wanted["commit"], wanted["path"], Path(work), out)


if __name__ == "__main__":
    run(main)
