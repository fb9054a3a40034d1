"""The two ways a stage ends before its end: SIGTERM (a time limit) and a loss that is not finite. Both exit non-zero.

SIGTERM, to any one rank: all ranks finish the step, save a whole checkpoint and exit; the same command resumes there.
So give a time limit some minutes of warning, as long as a step, an evaluation and a checkpoint take (Slurm:
`--signal=TERM@600`). Before the first step SIGTERM ends the process at once; when the last step is done, it is ignored.
"""

import signal

import torch
from transformers import TrainerCallback

from scripts.common.cli import UserError
from scripts.tokens.packing.shards import Shards
from scripts.training.engine.nonfinite_loss import FiniteTrainer
from scripts.training.monitoring.alerts import Alerts
from scripts.training.monitoring.progress import ProgressFile

NAMED = 20  # documents in the error line; alerts.jsonl has all


class Stop(TrainerCallback):
    """Asks all ranks after each step whether one must stop, in one small reduction.

    Args:
        trainer: the trainer it is a callback of.
        shards: the training rows.
    """

    def __init__(self, trainer: FiniteTrainer, stage: str, shards: Shards, alerts: Alerts, progress: ProgressFile):
        self.trainer, self.stage, self.shards = trainer, stage, shards
        self.alerts, self.progress = alerts, progress
        self.asked, self.stopped_at = False, None

    def on_train_begin(self, args, state, control, **kwargs):
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, number, frame) -> None:
        self.asked = True

    def on_step_begin(self, args, state, control, **kwargs):
        self.trainer.passes.clear()

    def on_step_end(self, args, state, control, **kwargs):
        asked = torch.tensor([self.asked], device=args.device)
        flags = torch.cat([asked, self.trainer.not_finite().to(args.device)]).int()
        if args.world_size > 1:
            torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
        asked, bad_loss, bad_norm = flags.tolist()
        if bad_loss or bad_norm:
            self.refuse(args, state, bool(bad_loss))
        if asked and state.global_step < state.max_steps:
            self.stopped_at, self.progress.end = state.global_step, "stopped"
            control.should_log = control.should_save = control.should_training_stop = True
        return control

    def on_train_end(self, args, state, control, **kwargs):
        if self.stopped_at is not None:
            leave(
                args,
                f"{self.stage}: stopped by SIGTERM at step {self.stopped_at} of {state.max_steps}, "
                "checkpoint saved; the same command resumes there",
            )

    def refuse(self, args, state, bad_loss: bool) -> None:
        """End the stage without a checkpoint of this step; every rank's documents are named."""
        mine = []
        if not bad_loss or self.trainer.not_finite()[0]:
            mine = self.trainer.suspects(self.shards)
        ranks = [mine]
        if args.world_size > 1:
            ranks = [None] * args.world_size
            torch.distributed.all_gather_object(ranks, mine)
        documents = list(dict.fromkeys(name for names in ranks for name in names))
        named = ", ".join(documents[:NAMED])
        more = f" and {len(documents) - NAMED} more (all in {self.alerts.path})" if len(documents) > NAMED else ""
        what = "loss" if bad_loss else "gradient norm"
        text = f"the {what} is not finite; documents of the batch: {named}{more}"
        if args.process_index == 0:
            self.alerts.tell(state.global_step, "not_finite", float("nan"), None, text, documents=documents)
            self.progress.write(state, "stopped")
        leave(args, f"{self.stage}: step {state.global_step}: {text}")


def leave(args, line: str) -> None:
    """Exit non-zero on all ranks, with one line from the first."""
    if args.process_index == 0:
        raise UserError(line)
    raise SystemExit(1)
