"""Whether a base model's tokenizer has what the datasets need, before the first job.

    check_base_tokenizer(Path("/models/Qwen2.5-7B"), experiment.corpus.compose, trained_on=["instruct"])

Only tokenizer.json's added tokens and the chat template are read: a tenth of a second with Qwen's vocabulary. A hub
model's small files are downloaded for it when rule `base` is about to run, before its weights.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file
from scripts.experiment.settings.corpus import (
    FILE_SEPARATOR,
    REPOSITORY_NAME,
    CodeDataset,
    InstructDataset,
    RepositoryDataset,
    TextDataset,
)
from scripts.experiment.settings.record import Record
from scripts.experiment.settings.training import Base
from scripts.tokens.packing.chat_template import CHATML, ChatTemplate

FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
SMALL_FILES = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json"]


def tokenizer_content(folder: str) -> str:
    """A hash of the files of the tokenizer in a folder; empty without one."""
    names = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    hashes = [f"{name} {sha256_file(path)}" for name in names if (path := Path(folder) / name).is_file()]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest() if folder else ""


def check_base_tokenizer(
    folder: Path, datasets: Mapping[str, Record], used: Iterable[str], template: str | None = None
) -> None:
    """Check control tokens and chat template in `folder` against the datasets that are `used`.

    Args:
        template: training.base.chat_template.

    Raises:
        UserError: a dataset needs a token or a template that is not there; the line names its setting.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return  # rule `tokenizer` says so
    try:
        controls = {token["content"]: token["id"] for token in read_json(path)["added_tokens"]}
    except (KeyError, TypeError):
        return  # no tokenizer.json of the kind that is read; rule `pack` names what is wrong
    for name in used:
        settings = datasets[name]
        if isinstance(settings, CodeDataset):
            missing = [token for token in FIM if token not in controls]
            if settings.fim_rate and missing:
                raise UserError(
                    f"corpus.compose.{name}.fim_rate: the base's tokenizer ({folder}) has no {missing[0]}; "
                    "set `fim_rate: 0`, or use a base trained on fill-in-the-middle"
                )
        elif isinstance(settings, RepositoryDataset):
            if missing := [token for token in (REPOSITORY_NAME, FILE_SEPARATOR) if token not in controls]:
                raise UserError(
                    f"corpus.compose.{name}.kind: the base's tokenizer ({folder}) has no {missing[0]}; use"
                    " `kind: code`, or a base trained on repositories"
                )
        elif not isinstance(settings, TextDataset):
            chats = [("user", "assistant"), ("user", "assistant", "user", "assistant")]
            if isinstance(settings, InstructDataset):
                chats = [("system", "user", "assistant")]
            with tempfile.TemporaryDirectory() as temporary:
                place = folder
                if template is not None:
                    place = Path(temporary)
                    write_chat_template(template, place)
                    config = folder / "tokenizer_config.json"
                    (place / config.name).write_text(config.read_text() if config.is_file() else "{}")
                try:
                    for roles in chats:
                        ChatTemplate(place, controls).layout(roles)
                except UserError as error:
                    key = "training.base.chat_template" if template else "training.base.model"
                    problem = str(error).replace(str(place), str(folder))
                    raise UserError(f"{key}: {problem}; dataset {name} is of chats") from error


def write_chat_template(template: str, folder: Path) -> None:
    """Write the template that training.base.chat_template names, `chatml` or a file, to `folder`."""
    text = CHATML if template == "chatml" else Path(template).read_text()
    (folder / "chat_template.jinja").write_text(text)


def small_files(base: Base) -> Path | None:
    """The hub model's tokenizer and config.json, downloaded to the hub's cache if needed; None if they cannot be."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(base.model, revision=base.revision, allow_patterns=SMALL_FILES))
    except (HfHubHTTPError, HFValidationError, OSError):
        return None  # rule `base` says what is wrong
