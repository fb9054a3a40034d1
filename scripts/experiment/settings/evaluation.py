"""Settings of `evaluation`: the suites. Benchmarks of generated code: code.py. Gates on their scores: gates.py."""

from typing import Annotated, Literal

from pydantic import Field

from scripts.experiment.settings.code import Code
from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.gates import Gates
from scripts.experiment.settings.generation import ENGINE, REPETITION, Engine, Generation, InPlace
from scripts.experiment.settings.record import Number, Record, Unique
from scripts.experiment.settings.repository_tasks import RepositoryTasks

Names = Annotated[list[str], Unique, Field(min_length=1)]


class Perplexity(Record):
    datasets: Annotated[list[str], Unique] | None = Field(
        None, description="Datasets scored on their test split; all by default."
    )
    documents: int = Field(200, ge=1, description="Most documents per dataset and language.")
    context: int = Field(4096, ge=2, description="Tokens of a window; longer documents are scored in several.")
    stride: int = Field(2048, ge=1, description="Tokens newly scored per further window, at most `context`.")


class ChatSuite(Generation):
    datasets: Names | None = Field(
        None,
        description="Datasets of chats whose test split gives the prompts; those of kind `instruct` and `chat` by"
        " default.",
    )
    documents: int = Field(200, ge=1, description="Most chats per dataset and language.")


class Qa(ChatSuite):
    """Runs where it is given, `qa: {}` with the defaults: answers to chats by exact match and F1."""

    max_new_tokens: int = Field(40, ge=1, description="Most tokens generated.")
    repetition_penalty: Number = Field(1.1, gt=0, description=REPETITION)


class Bleu(ChatSuite):
    """Runs where it is given: descriptions of code by BLEU and chrF."""

    documents: int = Field(50, ge=1, description="Most chats per dataset and language.")


class Keywords(Generation):
    """Runs where it is given: whether generated code has the keywords that a case names, in its text and syntax."""

    cases: Text = Field(
        "config/cases/keywords.yaml",
        description="File of cases by name: `language`, `prompt`, `keywords`. As a dataset it has the file's name"
        " without its ending.",
    )


class LmEval(Record):
    """Runs where it is given: tasks of the lm-evaluation-harness, with data that is on this machine."""

    tasks: Names = Field(
        description="Tasks, groups or tags of lm-eval, each a dataset of this name. `task:metric` chooses a metric, as"
        " `arc_easy:acc_norm` or `gsm8k:exact_match,flexible-extract`; by default the first that the task lists."
    )
    include_path: Text | None = Field(
        None, description="Folder with tasks of your own (YAML) and their data; a change of any file in it counts."
    )
    num_fewshot: int | None = Field(None, ge=0, description="Solved examples in each prompt; by default the task's.")
    limit: int | None = Field(None, ge=1, description="Score only this many items of each task, from the first.")
    chat: bool = Field(False, description="Whether a prompt is a request in the model's chat template.")
    batch: int = Field(8, ge=1, description="Prompts at once; vLLM decides itself.")
    engine: Engine = ENGINE


class CompletionTasks(Record):
    """Which places of the held-out code are to be written."""

    dataset: str | None = Field(
        None, description="Dataset of kind `code` whose test split gives the files; the first one by default."
    )
    sizes: Annotated[list[Literal["line", "block", "function"]], Unique] = Field(
        ["line", "block", "function"],
        min_length=1,
        description="What is to be written: a line, the statements of a block (`if`, loop), the body of a function.",
    )
    tasks: int = Field(50, ge=1, description="Most tasks of a size and language.")
    max_lines: int = Field(20, ge=2, description="Most lines of a block or a function's body.")
    context_characters: int = Field(
        0,
        ge=0,
        description="Characters of further files of the repository that the file imports. With any, each size is"
        " scored with and without them.",
    )


class Completion(InPlace, CompletionTasks):
    """Runs where it is given, `completion: {}` with the defaults: writing lines, blocks and functions of the held-out
    code in place."""


class RepositoryTests(InPlace, RepositoryTasks):
    """Runs where it is given, `repository_tests: {}` with the defaults: functions of the sources written in place, run
    under the sources' own tests; needs bubblewrap."""


class Latency(Record):
    """Runs where it is given: seconds to the first token and to a whole answer, tokens per second, on the hardware the
    model is meant for."""

    device: Text = Field(
        "gpu",
        description="Target hardware: `gpu` (any), `cpu`, or words of a GPU's name, as `A40`. Elsewhere nothing is"
        " timed and gates are not measured.",
    )
    prompt_tokens: int = Field(512, ge=1, description="Tokens of a prompt.")
    new_tokens: int = Field(512, ge=2, description="Tokens generated, no fewer and no more.")
    warmup: int = Field(2, ge=0, description="Runs of each batch before the timed ones.")
    runs: int = Field(10, ge=1, description="Timed runs of each batch; at 95% an interval needs 6.")
    batches: list[Annotated[int, Field(ge=1)]] = Field(
        [1, 2, 4, 8, 16], min_length=1, description="Prompts generated at once, growing from 1."
    )


class Human(Record):
    """Runs where it is given: people rate the outputs of another suite's models, on blinded rating sheets."""

    of: Literal["qa", "bleu", "keywords", "code"] = Field(
        description="The suite whose outputs are rated; it must be configured."
    )
    models: Names | None = Field(None, description="Models compared; all by default.")
    datasets: Names | None = Field(None, description="Datasets of that suite; all of them by default.")
    samples: int = Field(
        50, ge=1, description="Most items per dataset; each is a row for every distinct output of the models."
    )
    sheets: Annotated[list[Text], Unique] = Field(
        [],
        description="Filled sheets (CSV), one per rater, named after the rater; without any, only the blank sheet is"
        " written.",
    )


class Contamination(Record):
    """Runs with `qa`, `bleu`, `keywords` and `code`: which of their problems occur in the training data."""

    words: int = Field(
        10, ge=1, description="Consecutive words that a problem and a training document must share to overlap."
    )
    common: Number = Field(
        0.05,
        ge=0,
        le=1,
        description="Word sequences that more than this share of a dataset's problems contain are boilerplate and do"
        " not count; with 1 all count.",
    )


class Evaluation(Record):
    general: Names | None = Field(
        None,
        description="Datasets or tasks, of any suite here, that stand for what a model should not forget: held-back"
        " files of other repositories, lm-eval tasks. The report then says what a model gained on ours, all others,"
        " and what it lost in general.",
    )
    perplexity: Perplexity = Perplexity()
    qa: Qa | None = None
    bleu: Bleu | None = None
    keywords: Keywords | None = None
    code: Code | None = None
    completion: Completion | None = None
    repository_tests: RepositoryTests | None = None
    lm_eval: LmEval | None = None
    latency: Latency | None = None
    human: Human | None = None
    contamination: Contamination = Contamination()
    gate: Gates = Gates()
