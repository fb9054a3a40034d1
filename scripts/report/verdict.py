"""eval.json beside the page, once it is there: the end of the run, and the place where an unmet gate can fail it.

    python -m scripts.report.verdict --results results

With `evaluation.gate.fail: true` an unmet gate ends the run here, with nothing published. The report and the scores
behind it are outputs of rules that went well, so they stay; the next run comes back to this rule and says no again.
"""

import logging
import shutil
from pathlib import Path

from scripts.common.cli import UserError, parser, run
from scripts.common.files import atomic
from scripts.experiment.layout import Layout
from scripts.report.content.report_data import read_evaluation
from scripts.report.content.text import summary


def verdict(results: Path) -> None:
    """Copy eval.json, byte for byte, to the results root.

    Raises:
        UserError: a gate is not met and the experiment says that this fails the run.
    """
    layout, evaluation = Layout(results), read_evaluation(results)
    logging.info(f"done\n\n{summary(evaluation, results)}\n")
    unmet = [gate["name"] for gate in evaluation["gates"] if gate["outcome"].startswith("not met")]
    if unmet and evaluation["inputs"]["experiment"]["evaluation"]["gate"]["fail"]:
        kept = f"{layout.page} and {layout.gate}"
        raise UserError(f"evaluation.gate.fail: not met: {'; '.join(unmet)}; see {kept}, eval.json is not published")
    with atomic(layout.evaluation) as temporary:
        shutil.copyfile(layout.gate, temporary)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--results", type=Path, required=True, help="the results root")
    verdict(p.parse_args().results)


if __name__ == "__main__":
    run(main)
