"""Settings of `evaluation`: the suites. Benchmarks of generated code: code.py. Gates on their scores: gates.py."""

from typing import Annotated, Literal

from pydantic import Field

from scripts.experiment.settings.code import Code
from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.gates import Gates
from scripts.experiment.settings.generation import REPETITION, Generation, InPlace
from scripts.experiment.settings.record import Number, Record, Unique
from scripts.experiment.settings.repository_tasks import RepositoryTasks

Names = Annotated[list[str], Unique, Field(min_length=1)]


class Perplexity(Record):
    datasets: Annotated[list[str], Unique] | None = Field(
        None, description="Datasets scored on their test split; all by default."
    )
    documents: int = Field(200, ge=1, description="Maximum number of documents per dataset and language.")
    context: int = Field(4096, ge=2, description="Tokens of a window; longer documents are scored in several windows.")
    stride: int = Field(
        2048, ge=1, description="Number of new tokens that each further window scores, at most `context`."
    )


class ChatSuite(Generation):
    datasets: Names | None = Field(
        None,
        description="Datasets of chats from whose test split the prompts are taken; by default those of kind"
        " `instruct` and `chat`.",
    )
    documents: int = Field(200, ge=1, description="Maximum number of chats per dataset and language.")
    few_shot: Names | None = Field(
        None,
        description="Test chats that are shown, with their answers and in this order, before each prompt of their"
        " dataset; they are not scored.",
    )


class Qa(ChatSuite):
    """Off unless given (`qa: {}` for the defaults). Scores answers to chats by exact match and F1."""

    max_new_tokens: int = Field(40, ge=1, description="Maximum number of generated tokens.")
    repetition_penalty: Number = Field(1.1, gt=0, description=REPETITION)


class Bleu(ChatSuite):
    """Off unless given (`bleu: {}` for the defaults). Scores descriptions of code by BLEU and chrF."""

    documents: int = Field(50, ge=1, description="Maximum number of chats per dataset and language.")


class Keywords(Generation):
    """Off unless given (`keywords: {}` for the defaults). Checks whether generated code contains the keywords of a
    case, in its text and in its syntax tree."""

    cases: Text = Field(
        "config/cases/keywords.yaml",
        description="File of cases: a mapping from a case's name to its `language`, `prompt` and `keywords`. In"
        " scores the dataset is named after the file, without its extension.",
    )


class LmEval(Record):
    """Off unless given. Scores tasks of the lm-evaluation-harness; their data must be on this machine."""

    tasks: Names = Field(
        description="Tasks, groups or tags of lm-eval; in scores each is a dataset of this name. `task:metric`"
        " chooses a metric, such as `arc_easy:acc_norm` or `gsm8k:exact_match,flexible-extract`; by"
        " default the first metric that the task lists."
    )
    include_path: Text | None = Field(
        None,
        description="Folder with tasks of your own (YAML) and their data. A change of any file in it reruns the suite.",
    )
    num_fewshot: int | None = Field(
        None, ge=0, description="Number of solved examples in each prompt; by default that of the task."
    )
    limit: int | None = Field(None, ge=1, description="Score only this many items of each task, from the first.")
    chat: bool = Field(
        False, description="Whether each prompt is formatted as a request with the model's chat template."
    )


class CompletionTasks(Record):
    """Which parts of the held-out code the model has to write."""

    dataset: str | None = Field(
        None, description="Dataset of kind `code` from whose test split the files are taken; by default the first one."
    )
    tasks: int = Field(50, ge=1, description="Maximum number of tasks of each size and language.")


class Completion(InPlace, CompletionTasks):
    """Off unless given (`completion: {}` for the defaults). The model writes lines and functions of held-out
    files in place."""


class RepositoryTests(InPlace, RepositoryTasks):
    """Off unless given (`repository_tests: {}` for the defaults). The model writes functions of the sources in place,
    and the sources' own tests judge them; needs bubblewrap."""


class Latency(Record):
    """Off unless given (`latency: {}` for the defaults). Measures the time to the first token, the time of a whole
    answer and tokens per second, on the hardware that the model is meant for."""

    device: Text = Field(
        "gpu",
        description="Target hardware: `gpu` (any GPU), `cpu`, or a part of a GPU's name, such as `A40`. On other"
        " hardware nothing is measured, and gates on latency are reported as not measured.",
    )
    prompt_tokens: int = Field(512, ge=1, description="Number of tokens of each prompt.")
    new_tokens: int = Field(512, ge=2, description="Exact number of generated tokens.")


class Human(Record):
    """Off unless given. People rate the outputs of another suite on rating sheets that do not name the models."""

    of: Literal["qa", "bleu", "keywords", "code"] = Field(
        description="The suite whose outputs are rated; it must be part of the experiment."
    )
    samples: int = Field(
        50,
        ge=1,
        description="Maximum number of items per dataset; the sheet has one row for each distinct output of the"
        " models.",
    )
    sheets: Annotated[list[Text], Unique] = Field(
        [],
        description="Filled sheets (CSV), one per rater and named after the rater. Without any, only the blank sheet"
        " is written.",
    )


class Evaluation(Record):
    general: Names | None = Field(
        None,
        description="Datasets or tasks, of any suite of this experiment, that measure forgetting, such as held-out"
        " files of other repositories or lm-eval tasks. The report then says what a model gained on all"
        " other datasets and what it lost on these.",
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
    gate: Gates = Gates()
