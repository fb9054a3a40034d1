"""A trained model as it was measured: the prompts of the suites, with the code that was retrieved for them.

    assistant = Assistant(experiment, layout, "own")
    prompt, pieces = assistant.at("def area(width):\\n    ", "", "src/shapes.py")
    written = assistant.write(prompt, Generation(max_new_tokens=64))

`stagecraft try` and `stagecraft serve` both ask it, so what an editor gets is what the report is about.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.evaluation.code_tasks.answers import after_retrieved, prompt_at
from scripts.evaluation.generation.examples import Prompt
from scripts.evaluation.generation.model import load
from scripts.evaluation.generation.retrieval import Piece, Pieces
from scripts.experiment.layout import MANIFEST, Layout, split_file
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.suites import Generation, InPlace
from scripts.serving.llama_cpp import LlamaCpp

CHARACTERS_OF_TOKEN = 4  # of code, about


class Written(NamedTuple):
    """What a model wrote.

    Attributes:
        prompt_tokens, tokens: how many the model read and wrote.
        reason: why it ended, in OpenAI's words: `stop` at its own end or a stop text, else `length`.
    """

    text: str
    prompt_tokens: int
    tokens: int
    reason: str


def check_trained(layout: Layout, model: str) -> None:
    """Check that a model is there. Raises UserError: it is not."""
    if not (layout.model(model) / MANIFEST).is_file():
        raise UserError(f"{layout.model(model)}: no model there yet; run the experiment first")


def training_code(experiment: Experiment, layout: Layout) -> list[dict]:
    """The documents that the experiment retrieves from: `id` and `text`; none where it retrieves nothing."""
    retrieval, documents = experiment.evaluation.perplexity.retrieval, []
    if retrieval:
        for name in retrieval.datasets:
            documents += read_jsonl(split_file(layout.dataset(name), "train"))
    return documents


class Assistant:
    """A model of an experiment, and the code that is retrieved for it.

    Args:
        model: `base` or a stage.
        retrieval: whether code is retrieved, where the experiment does.
        gguf: a released file of the model, which llama.cpp runs.

    Raises:
        UserError: the model is not trained yet, its files are not what its manifest says, or llama.cpp cannot run it.
    """

    def __init__(
        self, experiment: Experiment, layout: Layout, model: str, retrieval: bool = True, gguf: Path | None = None
    ):
        check_trained(layout, model)
        self.name, self.documents = model, []
        if retrieval:
            self.documents = training_code(experiment, layout)
        self.settings = experiment.evaluation.completion
        if self.settings is None:  # as much as suite perplexity, which then decides, shows at a place
            shown = CHARACTERS_OF_TOKEN * experiment.evaluation.perplexity.context
            self.settings = InPlace(prompt_characters=min(InPlace().prompt_characters, shown))
        measured = experiment.evaluation.perplexity.retrieval
        self.count = measured.pieces if measured else 0
        self.pieces = Pieces(self.documents, self.count)
        self.llama_cpp = LlamaCpp(gguf) if gguf else None
        if gguf:
            from scripts.tokens.tokenization.encoder import Encoder

            self.encoder = Encoder(layout.model(model))
        else:
            self.loaded = load(layout.model(model))
            self.encoder = self.loaded.encoder

    def also_retrieve(self, documents: Iterable[dict]) -> None:
        """Search these documents too, in place of the training documents of the same paths."""
        new = {document["id"].partition("/")[2]: document for document in documents}
        kept = [document for document in self.documents if document["id"].partition("/")[2] not in new]
        self.pieces = Pieces([*kept, *new.values()], self.count or 2)

    def at(
        self, before: str, after: str, path: str, retrieval: bool = True, own: str = ""
    ) -> tuple[Prompt, list[Piece]]:
        """(the prompt at a place in a file, the code that was retrieved for it, the best last).

        Args:
            after: what stands behind the place; used where the base can fill in.
            path: of the file, with the name of its source before it where that is known.
            own: the file's whole path, where `path` is a part of it.
        """
        form = "plain"
        if after and self.encoder.files.infill is not None:
            form = "fim"
        prompt = prompt_at(before, after, form, self.settings.prompt_characters)
        found = self.pieces.best(path, before, own or path) if retrieval else []
        return after_retrieved("".join(piece.text for piece in found), prompt), found

    def write(
        self,
        prompt: Prompt,
        settings: Generation,
        seed: int = 0,
        stops: tuple[str, ...] = (),
        told: Callable[[str], bool] = lambda text: False,
    ) -> Written:
        """Continue a prompt.

        Args:
            stops: texts before which the model's text ends.
            told: called with the text so far after each token; True ends it.

        Raises:
            UserError: the prompt is too long for the model, or a chat without a chat template.
        """
        from scripts.evaluation.generation.transformers_engine import decode, encode, generate

        calls, encoder = 0, self.encoder
        start = encode(encoder, prompt)

        def finished(number: int, text: str) -> bool:
            nonlocal calls
            calls += 1
            return any(stop in text for stop in stops) or told(text)

        if self.llama_cpp:
            ids = self.llama_cpp.write(
                start.ids,
                start.due,
                start.ends,
                start.removed + settings.max_new_tokens,
                settings.temperature,
                settings.top_p,
                seed,
                lambda ids: finished(0, decode(encoder, ids, start)),
            )
            text = decode(encoder, ids, start)
        else:
            [[text]] = generate(self.loaded.model, encoder, [prompt], settings, seed, finished, "serve", every=1)
        reason = "stop" if calls < start.removed + settings.max_new_tokens else "length"
        ends = [text.find(stop) for stop in stops if stop in text]
        if ends:
            text, reason = text[: min(ends)], "stop"
        return Written(text, len(start.ids), calls, reason)
