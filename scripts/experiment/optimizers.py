"""What the project knows about an optimizer: one row, which settings, plan, disk check and training read.

    OPTIMIZERS["muon"].state_bytes(trained=7_000, matrices=6_000, head=500)    # 32_000

An optimizer that transformers can make (`optim` of its TrainingArguments) is a row here and nothing else. One of our
own, as Muon, also has a module that makes it, which runs in no stage with another one.
"""

from typing import NamedTuple

ADAMW_BYTES = 8  # two moments in fp32
# two moments of one byte, each with a scale in fp32 for every 256 of them
EIGHT_BIT_BYTES = 2 * (1 + 4 / 256)
STAGE = "scripts.training.train"  # the module that trains with one of them


class Optimizer(NamedTuple):
    """An optimizer. Bytes are those of its state for one trained value, in memory and in a checkpoint.

    Attributes:
        description: for config/README.md; empty where the name says all.
        optim: its name in transformers' TrainingArguments; None for the Trainer's own AdamW, or where we make it.
        layer_bytes: for the matrices of the layers, and for adapters.
        head_bytes: for a head that is not also the embedding.
        other_bytes: for embeddings, norms, biases.
        step_bytes: made during a step and freed again, for each value of the largest matrix of a layer.
        clips: whether it uses the gradient's norm, so that clipping makes sense.
        adapters: whether it can train adapters (`method: lora`).
        divides: whether its state can be divided among GPUs.
        module: the module that makes it, where we do; its code counts for the stages that it trains alone.
    """

    description: str = ""
    optim: str | None = None
    layer_bytes: float = ADAMW_BYTES
    head_bytes: float = ADAMW_BYTES
    other_bytes: float = ADAMW_BYTES
    step_bytes: float = 0
    clips: bool = True
    adapters: bool = True
    divides: bool = True
    module: str | None = None

    def state_bytes(self, trained: int, matrices: int, head: int) -> float:
        """Bytes of the state.

        Args:
            trained: all trained values; the next two are a part of them.
            matrices: those in matrices of the layers, or in adapters.
            head: those in a head that is not also the embedding.
        """
        others = trained - matrices - head
        return self.layer_bytes * matrices + self.head_bytes * head + self.other_bytes * others


OPTIMIZERS = {
    "adamw": Optimizer(),
    "adamw_8bit": Optimizer(
        "`adamw_8bit` stores its moments in 8 bits (bitsandbytes).",
        optim="adamw_8bit",
        layer_bytes=EIGHT_BIT_BYTES,
        head_bytes=EIGHT_BIT_BYTES,  # of embeddings bitsandbytes keeps fp32
        divides=False,
    ),
    # With bf16 DeepSpeed's ZeRO-2 and ZeRO-3 hold its momentum in bf16: half.
    "muon": Optimizer(
        "`muon` trains the matrices of the hidden layers with Muon and all other parameters with AdamW.",
        layer_bytes=4,
        step_bytes=5 * 2,  # the orthogonalization, in bf16
        clips=False,
        adapters=False,
        module="scripts.training.engine.muon",
    ),
}


def modules_of_others(*names: str) -> tuple[str, ...]:
    """The modules that make other optimizers than these."""
    return tuple(row.module for name, row in OPTIMIZERS.items() if row.module and name not in names)
