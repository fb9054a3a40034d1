"""Whether suite `completion` scores as the published code of CrossCodeEval does, on the problems of SAFIM.

    python -m benchmarks.crosscheck_completion --crosscodeeval CHECKOUT --problems block_completion.jsonl.gz

CHECKOUT is a clone of amazon-science/cceval, whose functions are called (they need the packages fuzzywuzzy,
python-Levenshtein and timeout-decorator); the problems are files that the history of gonglinyuan/safim holds in data/.
To the true completion of each problem in Python or Java there are six others: itself, with other indentation, the first
half, without its last line, with one name replaced, and the completion of the next problem.
"""

import gzip
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scripts.common.cli import parser, run
from scripts.evaluation.metrics.code_completion import completion_match, edit_similarity, identifier_f1

LANGUAGES = ("python", "java")


def candidates(truth: str, following: str) -> Iterator[tuple[str, str]]:
    """(kind, completion) of all completions of a problem."""
    yield "the same", truth
    yield "other indentation", "\n\n".join("  " + line for line in truth.split("\n"))
    yield "half", truth[: len(truth) // 2]
    yield "without last line", truth.rstrip().rpartition("\n")[0]
    names = re.findall(r"[a-z]\w{3,}", truth)
    yield "one name replaced", truth.replace(names[0], "replaced") if names else truth + " replaced"
    yield "of the next problem", following


def published(completion: str, truth: str, language: str, utils, without_comments: bool) -> tuple[float, float, float]:
    """(exact match, edit similarity, F1 of identifiers) from 0 to 1, as CrossCodeEval's `process_examples` has them."""
    if without_comments:
        completion, truth = utils.remove_comments(completion), utils.remove_comments(truth)
    lines = [[line.strip() for line in text.split("\n") if line.strip()] for text in (completion, truth)]
    written_names, true_names = (set(utils.extract_identifiers(text, language)) for text in (completion, truth))
    common, all_names = len(written_names & true_names), len(written_names) + len(true_names)
    similarity = utils.cal_edit_sim([truth], [completion]) / 100
    return float(lines[0] == lines[1]), similarity, 2 * common / all_names if all_names else 0.0


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--crosscodeeval", type=Path, required=True, help="a clone of amazon-science/cceval")
    arguments.add_argument("--problems", type=Path, nargs="+", required=True, help="files of problems of SAFIM")
    options = arguments.parse_args()
    sys.path.insert(0, str(options.crosscodeeval / "scripts"))
    import eval_utils

    truths = defaultdict(list)
    for path in options.problems:
        with gzip.open(path, "rt") as lines:
            for problem in map(json.loads, lines):
                truths[problem["lang"]].append(problem["ground_truth"])
    for without_comments in (False, True):
        counted, differences = Counter(), defaultdict(list)
        for language in LANGUAGES:
            for truth, following in zip(truths[language], truths[language][1:], strict=False):
                for _, completion in candidates(truth, following):
                    ours = (
                        float(completion_match(completion, truth)),
                        edit_similarity(completion, truth),
                        identifier_f1(completion, truth, language),
                    )
                    theirs = published(completion, truth, language, eval_utils, without_comments)
                    counted[language] += 1
                    differences[language].append(np.subtract(ours, theirs))
        for language, rows in differences.items():
            table = np.array(rows)
            for name, column, rounding in zip(
                ("completion_match", "edit_similarity", "identifier_f1"), table.T, (0, 0.005, 0), strict=True
            ):
                print(
                    f"{language}, {'comments removed' if without_comments else 'as they are'}: {name} equal in"
                    f" {np.mean(np.abs(column) <= rounding + 1e-9):.2%} of {counted[language]:,}, ours - published"
                    f" {column.mean():+.5f} on average, {np.abs(column).max():.3f} at most"
                )


if __name__ == "__main__":
    run(main)
