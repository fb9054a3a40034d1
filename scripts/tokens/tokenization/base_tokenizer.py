"""Whether a base model's tokenizer has what the datasets need, before the first job.

    check_base_tokenizer(Path("/models/Qwen2.5-7B"), experiment.corpus.compose, trained_on=["instruct"])

The tokenizers library loads the file (half a second with Qwen's vocabulary) and the chat template is rendered. A hub
model's small files are downloaded for it when rule `base` is about to run, before its weights.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.settings.corpus import CodeDataset, InstructDataset, TextDataset
from scripts.experiment.settings.record import Record
from scripts.experiment.settings.training import Base
from scripts.tokens.tokenization.chat_template import CHATML, ChatTemplate
from scripts.tokens.tokenization.gguf_base import gguf_file, small_folder
from scripts.tokens.tokenization.text_engine import load_library
from scripts.tokens.tokenization.tokenizer_files import FILES, FIM, TokenizerFiles


def check_base_tokenizer(
    folder: Path, datasets: Mapping[str, Record], used: Iterable[str], template: str | None = None
) -> None:
    """Check the tokenizer in `folder`, and its control tokens and chat template against the datasets that are `used`.

    Args:
        template: training.base.chat_template.

    Raises:
        UserError: the tokenizer cannot be loaded, does not belong to the model, or a dataset needs a token or a
            template that is not there; the line names its setting.
    """
    files = TokenizerFiles(folder)
    load_library(files)
    files.end  # noqa: B018 - raises where no file names one
    size = files.read("config.json").get("vocab_size")
    if isinstance(size, int) and files.model_vocabulary > size:
        raise UserError(
            f"{folder}: tokenizer.json has {files.model_vocabulary:,} ids, config.json says vocab_size {size:,}; give"
            " the model its own tokenizer"
        )
    for name in used:
        settings = datasets[name]
        if isinstance(settings, CodeDataset):
            if settings.fim_rate and files.infill is None:
                missing = next(token for token in FIM[0] if token not in files.controls)
                raise UserError(
                    f"corpus.compose.{name}.fim_rate: the base's tokenizer ({folder}) has no {missing}; "
                    "set `fim_rate: 0`, or use a base trained on fill-in-the-middle"
                )
        elif not isinstance(settings, TextDataset):
            chats = [("user", "assistant"), ("user", "assistant", "user", "assistant")]
            if isinstance(settings, InstructDataset):
                chats = [("system", "user", "assistant")]
            own = ChatTemplate(files, chat_template_text(template) if template else None)
            try:
                for roles in chats:
                    own.layout(roles)
            except UserError as error:
                key = "training.base.model"
                if template:
                    key = "training.base.chat_template"
                raise UserError(f"{key}: {error}; dataset {name} is of chats") from error


def chat_template_text(template: str) -> str:
    """The template that training.base.chat_template names: `chatml` or a file."""
    if template == "chatml":
        return CHATML
    return Path(template).read_text()


def write_chat_template(template: str, folder: Path) -> None:
    """Write the template that training.base.chat_template names, `chatml` or a file, to `folder`."""
    (folder / "chat_template.jinja").write_text(chat_template_text(template))


def small_files(base: Base) -> Path | None:
    """A folder with the base's tokenizer and config.json, downloaded if needed; None if the hub's cannot be had. Raises
    UserError: a GGUF file cannot be had or read."""
    if base.is_gguf:
        return small_folder(gguf_file(base))
    if Path(base.model).is_dir():
        return Path(base.model)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(base.model, revision=base.revision, allow_patterns=FILES))
    except (HfHubHTTPError, HFValidationError, OSError):
        return None  # rule `base` says what is wrong
