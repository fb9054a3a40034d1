"""How a stage ends before its last step: SIGTERM (a time limit), a loss that is not finite, another run of the stage.

All exit non-zero. On SIGTERM to any one rank all ranks finish the step, save a whole checkpoint and exit; the same
command resumes there. So give a time limit some minutes of warning, as long as a step, an evaluation and a checkpoint
take (Slurm: `--signal=TERM@600`). Before the first step SIGTERM ends the process at once; after the last it is ignored.
If another run has taken over the work folder (scripts/training/engine/run_lock.py), nothing more is written.
"""

import signal

import torch
from transformers import TrainerCallback

from scripts.common.errors import MachineFault, UserError
from scripts.tokens.packing.shards import Shards
from scripts.training.engine.nonfinite_loss import PassRecordingTrainer
from scripts.training.engine.run_lock import Ownership
from scripts.training.monitoring.alerts import Alerts
from scripts.training.monitoring.progress import ProgressFile

DOCUMENTS_SHOWN = 20  # in the error line; alerts.jsonl has all


class Interruption(TrainerCallback):
    """After each step all ranks agree, in one small reduction, whether to stop.

    Args:
        trainer: the trainer that calls it.
        shards: the training rows.
        owner: the first rank's claim on the work folder, None on other ranks.
    """

    def __init__(
        self,
        trainer: PassRecordingTrainer,
        stage: str,
        shards: Shards,
        alerts: Alerts,
        progress: ProgressFile,
        owner: Ownership | None,
    ):
        self.trainer, self.stage, self.shards = trainer, stage, shards
        self.alerts, self.progress, self.owner = alerts, progress, owner
        self.sigterm_received, self.stopped_at = False, None

    def on_train_begin(self, args, state, control, **kwargs):
        signal.signal(signal.SIGTERM, self.handle_sigterm)

    def handle_sigterm(self, number, frame) -> None:
        self.sigterm_received = True

    def on_step_begin(self, args, state, control, **kwargs):
        self.trainer.passes.clear()

    def on_step_end(self, args, state, control, **kwargs):
        lost = self.owner is not None and self.owner.is_lost()
        local_flags = torch.tensor([self.sigterm_received, lost], device=args.device)
        flags = torch.cat([local_flags, self.trainer.nonfinite().to(args.device)]).int()
        if args.world_size > 1:
            torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
        sigterm, lost, bad_loss, bad_norm = flags.tolist()
        if lost:
            exit_all_ranks(args, f"{self.stage}: {self.owner.lost_message()}" if self.owner else "")
        if bad_loss or bad_norm:
            self.end_nonfinite(args, state, bool(bad_loss))
        if sigterm and state.global_step < state.max_steps:
            self.stopped_at, self.progress.final_state = state.global_step, "stopped"
            control.should_log = control.should_save = control.should_training_stop = True
        return control

    def on_train_end(self, args, state, control, **kwargs):
        if self.stopped_at is not None:
            exit_all_ranks(
                args,
                f"{self.stage}: stopped by SIGTERM at step {self.stopped_at} of {state.max_steps}, "
                "checkpoint saved; the same command resumes there",
                MachineFault,
            )

    def end_nonfinite(self, args, state, bad_loss: bool) -> None:
        """End the stage without a checkpoint of this step; the alert names the documents of all ranks.

        Args:
            bad_loss: whether a rank's loss is not finite; else it is the gradient norm.
        """
        documents = []
        if not bad_loss or self.trainer.nonfinite()[0]:
            documents = self.trainer.suspect_documents(self.shards)
        ranks = [documents]
        if args.world_size > 1:
            ranks = [None] * args.world_size
            torch.distributed.all_gather_object(ranks, documents)
        documents = list(dict.fromkeys(name for names in ranks for name in names))
        shown, rest = ", ".join(documents[:DOCUMENTS_SHOWN]), len(documents) - DOCUMENTS_SHOWN
        more = f" and {rest} more (all in {self.alerts.path})" if rest > 0 else ""
        quantity = "loss" if bad_loss else "gradient norm"
        text = f"the {quantity} is not finite; documents of the batch: {shown}{more}"
        if args.process_index == 0:
            self.alerts.send(state.global_step, "not_finite", float("nan"), None, text, documents=documents)
            self.progress.write(state, "stopped")
        exit_all_ranks(args, f"{self.stage}: step {state.global_step}: {text}")


def exit_all_ranks(args, line: str, kind: type[UserError] = UserError) -> None:
    """Exit non-zero on all ranks, with one line from the first."""
    if args.process_index == 0:
        raise kind(line)
    raise SystemExit(1)
