"""Publish eval.json as the last file of a run, or fail the run if a gate is not met and the experiment requires it.

    python -m scripts.report.verdict --results results

With `evaluation.gate.fail: true` an unmet gate ends the run here and eval.json is not published. The report and the
scores are outputs of other rules, so they are kept; the next run starts at this rule again, with the same outcome.
"""

import logging
import shutil
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.common.options import command
from scripts.experiment.layout import Layout
from scripts.report.content.eval_json import read_evaluation
from scripts.report.content.wording import printed_summary


def verdict(results: Path) -> None:
    """Log the summary and copy eval.json, byte for byte, to the results root. Raises UserError: a gate is not met, and
    the experiment's `evaluation.gate.fail` is true."""
    layout, evaluation = Layout(results), read_evaluation(results)
    logging.info(f"done\n\n{printed_summary(evaluation, results)}\n")
    unmet = [gate["name"] for gate in evaluation["gates"] if gate["outcome"].startswith("not met")]
    if unmet and evaluation["inputs"]["experiment"]["evaluation"]["gate"]["fail"]:
        kept = f"{layout.page} and {layout.gate}"
        raise UserError(f"evaluation.gate.fail: not met: {'; '.join(unmet)}; see {kept}, eval.json is not published")
    with atomic(layout.evaluation) as temporary:
        shutil.copyfile(layout.gate, temporary)


if __name__ == "__main__":
    run(command(verdict))
