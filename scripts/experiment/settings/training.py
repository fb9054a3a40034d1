"""Settings of `training`: the base model and the stages."""

from typing import Annotated, Literal, Self

from pydantic import Field

from scripts.experiment.settings.corpus import Sha256
from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Number, Record, Unique

Auto = Literal["auto"]


class Shape(Record):
    """Shape of a Qwen2-architecture model. With a real base it only serves the plan, before the model is there."""

    hidden_size: int = Field(ge=8, description="Width.")
    intermediate_size: int = Field(ge=8, description="Width of the feed-forward layers.")
    num_hidden_layers: int = Field(ge=1, description="Layers.")
    num_attention_heads: int = Field(ge=1, description="Query heads.")
    num_key_value_heads: int = Field(ge=1, description="Key and value heads.")
    max_position_embeddings: int = Field(32768, ge=16, description="Longest context (tokens).")
    rope_theta: Number = Field(1_000_000, gt=0, description="Base of the rotary embedding.")
    tie_word_embeddings: bool = Field(False, description="One matrix for embedding and head.")
    vocab_size: int | None = Field(
        None, ge=512, description="Vocabulary of a real base (plan only); from scratch, the tokenizer's."
    )

    @classmethod
    def from_config(cls, config: dict) -> Self | None:
        """The shape in a model's config.json; None where it is not of this architecture's kind."""
        fields = {key: config[key] for key in cls.model_fields if config.get(key) is not None}
        required = {name for name, field in cls.model_fields.items() if field.is_required()} | {"vocab_size"}
        return cls(**fields) if required <= fields.keys() else None


class Base(Record):
    model: Text = Field(description="`scratch` (from `shape`), a folder with a transformers model, or a hub name.")
    revision: str | None = Field(
        None, pattern="^[0-9a-f]{40}$", description="Commit of the hub model; required with a hub name."
    )
    sha256: Sha256 | None = Field(None, description="Hash of the model folder, checked when given.")
    chat_template: Text | None = Field(
        None,
        description="Chat template, in place of the model's own: `chatml`, or a .jinja file. Its control tokens must"
        " be among the tokenizer's. Not with `scratch`, which has ChatML.",
    )
    no_rope_layers: list[Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern="^[0-9]+-[0-9]+$")]] = Field(
        [],
        description="Layers whose RoPE is switched off: numbers from 0 on, or ranges as `20-27`. The model becomes a"
        " SmolLM3, which is Qwen2 with such a switch.",
    )
    rope_theta: Number | None = Field(
        None, gt=0, description="Base of the rotary embedding, in place of the model's own."
    )
    shape: Shape | None = None
    trained_tokens: Number | None = Field(
        None,
        gt=0,
        description="Tokens that a real base was trained on, for the plan: a stage's share of the base's compute (18e12"
        " of Qwen2.5, by its technical report).",
    )


class Lora(Record):
    r: int = Field(8, ge=1, description="Rank of the adapters.")
    alpha: Number = Field(16, gt=0, description="Scale: an adapter's output is multiplied by alpha / r.")
    dropout: Number = Field(0.05, ge=0, lt=1, description="Dropout before an adapter.")
    targets: Annotated[list[Text], Unique] = Field(
        ["q_proj", "k_proj", "v_proj", "o_proj"],
        min_length=1,
        description="Names of the linear layers that get an adapter.",
    )
    merge: bool = Field(
        False,
        description="Save a plain model, the adapter added to the unquantized weights; else save the adapter alone,"
        " which needs the folder of the model that it was trained on.",
    )


class EarlyStopping(Record):
    """Ends the stage when the validation loss no longer falls."""

    patience: int = Field(ge=1, description="Evaluations in a row without improvement after which the stage ends.")
    min_delta: Number = Field(
        0, ge=0, description="Smallest fall of the validation loss that counts as improvement (nats per token)."
    )


class Stage(Record):
    origin: str = Field(alias="from", description="`base`, or the stage whose model this one starts from.")
    data: str = Field(description="A dataset of `corpus.compose`, or a mixture of `tokens.mix`.")
    sequence_length: int = Field(4096, ge=16, description="Length of a packed row (tokens).")
    method: Literal["full", "lora"] = Field(
        "full",
        description="`full` trains the model's own weights; `lora` freezes them and trains low-rank adapters (Hu et al."
        " 2021).",
    )
    lora: Lora = Lora()
    quantize: Literal["none", "8bit", "4bit"] = Field(
        "none",
        description="Precision of the frozen weights while a LoRA stage trains (bitsandbytes: LLM.int8, or NF4 with"
        " double quantization).",
    )
    global_batch: Annotated[int, Field(ge=1)] | Auto = Field(
        64,
        description="Packed rows per optimizer step over all GPUs. `auto`: (millions of parameters x millions of"
        " tokens)^0.4 thousand tokens, in multiples of 8 rows, 8 rows at least, 4,194,304 tokens at most.",
    )
    steps: int | None = Field(None, ge=1, description="Optimizer steps; give this or `epochs`.")
    epochs: Number | None = Field(None, gt=0, description="Passes over the data; give this or `steps`.")
    max_samples: int | None = Field(
        None, ge=1, description="Most packed training rows used: the first ones of the shuffled shard."
    )
    trainable: Literal["all", "no_rope_layers"] | Annotated[list[Text], Field(min_length=1)] = Field(
        "all",
        description="What is trained: `all`, `no_rope_layers` (all of the layers whose RoPE is off), or a list of"
        " patterns of parameter names as `*.layers.2?.self_attn.*`.",
    )
    optimizer: Literal["adamw", "adamw_8bit", "muon"] = Field(
        "adamw",
        description="`adamw_8bit` keeps its moments in 8 bits (bitsandbytes). `muon` trains the matrices of the hidden"
        " layers with Muon, all else with AdamW.",
    )
    learning_rate: Annotated[Number, Field(gt=0)] | Auto = Field(
        description="Peak learning rate. `auto`: 5e-5 at 7e9 parameters, scaled with parameters^-0.25."
    )
    muon_learning_rate: Number | None = Field(
        None,
        gt=0,
        description="Peak learning rate of Muon; by default the stage's, as its steps are scaled to the size of"
        " AdamW's.",
    )
    scheduler: Literal["cosine", "linear", "constant", "warmup-stable-decay"] = Field(
        "cosine",
        description="The learning rate after the warm-up: to zero along a half cosine or a line, constant, or constant"
        " and then to zero as 1 - sqrt.",
    )
    decay_share: Number = Field(
        0.2, gt=0, le=1, description="Share of the steps in which `warmup-stable-decay` falls to zero."
    )
    warmup_steps: int | None = Field(
        None, ge=0, description="Steps of linear warm-up, in place of `warmup_share`; fewer than the stage has."
    )
    warmup_share: Number = Field(0.03, ge=0, lt=1, description="Linear warm-up as a share of the steps.")
    weight_decay: Number = Field(0.01, ge=0, description="Weight decay, decoupled; not on biases and norms.")
    betas: list[Annotated[Number, Field(ge=0, lt=1)]] = Field(
        [0.9, 0.95], min_length=2, max_length=2, description="AdamW betas."
    )
    eps: Number = Field(1e-8, gt=0, description="AdamW epsilon.")
    clip: Number = Field(1.0, gt=0, description="Largest gradient norm; Muon clips nothing.")
    precision: Literal["fp32", "bf16"] = Field(
        "bf16", description="Precision of compute; weights stay fp32 unless sharded by DeepSpeed."
    )
    log_steps: int | None = Field(None, ge=1, description="Steps between logged metrics, in place of `log_share`.")
    log_share: Number = Field(
        0.005, gt=0, le=1, description="Share of the steps between logged metrics: 0.005 logs 200 times or more."
    )
    eval_steps: int | None = Field(None, ge=1, description="Steps between validation losses, in place of `eval_share`.")
    eval_share: Number = Field(
        0.05, gt=0, le=1, description="Share of the steps between validation losses: 0.05 evaluates 20 times or more."
    )
    eval_rows: int = Field(512, ge=1, description="Most validation rows scored each time.")
    early_stopping: EarlyStopping | None = None
    keep_best: bool = Field(
        False,
        description="Publish the checkpoint with the lowest validation loss, not the last; each new best is saved.",
    )
    save_steps: int | None = Field(None, ge=1, description="Steps between checkpoints, in place of `save_share`.")
    save_share: Number = Field(
        0.1, gt=0, le=1, description="Share of the steps between checkpoints; a killed job loses at most so many."
    )
    keep_checkpoints: int = Field(3, ge=1, description="Checkpoints kept.")
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Unique, Field(min_length=2)] | None = Field(
        None,
        description="Train this stage once with each, in place of the experiment's `seed`: its scores, comparisons and"
        " gates are then over seeds and documents. For a stage that no other starts from; not with `ablate`.",
    )


StageName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class Training(Record):
    base: Base
    train: dict[StageName, Stage] = Field(
        min_length=1, description="The stages by name (any but `base`), each from `base` or another stage."
    )
