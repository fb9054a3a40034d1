"""The tokenizer: learned from the corpus for a base model trained from scratch, else copied from the base model.

    python -m scripts.tokens.tokenizer --from results/corpus/split \\
        --settings '{"vocab_size": 8192}' --out results/tokens/tokenizer
    python -m scripts.tokens.tokenizer --from results/training/base --out results/tokens/tokenizer

With --settings it is learned from the train splits of the folders (of all datasets if none is made from repositories),
without it the model folder's is copied.

A learned tokenizer is a byte-level BPE like Qwen2.5's (normalizer, pre-tokenizer, control tokens, chat template), so
whatever supports Qwen2.5 supports it. Training counts words and breaks ties by the pair itself: the same sample gives
the same bytes with any number of threads.
"""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_jsonl, write_json
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.options import parser
from scripts.common.progress import Progress
from scripts.experiment.layout import split_file
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.tokens.tokenization.chat_template import CHATML
from scripts.tokens.tokenization.text_engine import load_library
from scripts.tokens.tokenization.tokenizer_files import FILES, PRE_TOKENIZER, TokenizerFiles

LEARNED = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]

# Qwen2.5's added tokens in its order. The second group is not special: decoding keeps these tokens in the text.
SPECIAL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
]
ADDED = [
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>"),
]

SAMPLE_MEGABYTES = 10  # of texts that a tokenizer is learned from

# The end of text is `<|endoftext|>` as in Qwen2.5's base models: it ends each document. The turns of a chat end with
# `<|im_end|>`, which generation must name as a stop token.
CONFIG = {
    "add_bos_token": False,
    "add_prefix_space": False,
    "additional_special_tokens": SPECIAL[1:],
    "bos_token": None,
    "clean_up_tokenization_spaces": False,
    "eos_token": "<|endoftext|>",
    "errors": "replace",
    "pad_token": "<|endoftext|>",
    "split_special_tokens": False,
    "tokenizer_class": "Qwen2Tokenizer",
    "unk_token": None,
}


def choose_sample(documents: list[tuple[str, str, int]], budget: float) -> set[int]:
    """The indices of the sampled documents: equal shares of each language, as far as it has text, up to `budget`.

    Args:
        documents: (language, sha256, bytes) of each; within a language those with the smallest hashes are sampled.
        budget: bytes.
    """
    queues = defaultdict(list)
    for index, (language, digest, size) in enumerate(documents):
        queues[language].append((digest, index, size))
    queues = {language: sorted(queue, reverse=True) for language, queue in sorted(queues.items())}
    bytes_taken = dict.fromkeys(queues, 0)
    chosen = set()
    while queues and sum(bytes_taken.values()) < budget:
        language = min(queues, key=bytes_taken.get)
        _, index, size = queues[language].pop()
        bytes_taken[language] += size
        chosen.add(index)
        if not queues[language]:
            del queues[language]
    return chosen


def texts(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """(language, text) of each document or example in .jsonl.zst files; the messages of a chat are one text."""
    for path in paths:
        for record in read_jsonl(path):
            parts = [message["content"] for message in record.get("messages", [])] or [record["text"]]
            yield record["language"], "\n".join(parts)


def sample(paths: list[Path], megabytes: float) -> Iterator[str]:
    """Yield the sampled texts of .jsonl.zst files, in the files' order. Raises UserError: the files hold no text."""
    progress = Progress("tokenizer: measuring", "documents")
    documents = []
    for language, text in texts(paths):
        content = text.encode()
        documents.append((language, hashlib.sha256(content).hexdigest(), len(content)))
        progress.add()
    progress.end()
    if not documents:
        folders = ", ".join(map(str, paths))
        raise UserError(f"{folders}: no document to learn a tokenizer from; loosen corpus.filter or add data")
    chosen = choose_sample(documents, megabytes * 1e6)
    logging.info(
        f"tokenizer: learning from {sum(documents[i][2] for i in chosen) / 1e6:.1f} MB of {len(chosen):,} documents"
    )
    progress = Progress("tokenizer: reading", "documents", len(chosen))
    for index, (_, text) in enumerate(texts(paths)):
        if index in chosen:
            progress.add()
            yield text
    progress.end()


def learn(sampled: Iterator[str], vocab_size: int) -> Tokenizer:
    """A byte-level BPE of exactly `vocab_size` ids, the control tokens last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    level = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PRE_TOKENIZER), "isolated"), pre_tokenizers.ByteLevel(**level)]
    )
    tokenizer.post_processor = processors.ByteLevel(**level)
    tokenizer.decoder = decoders.ByteLevel(**level)
    # The control tokens are added after training, so that a literal one in a text is learned as text.
    size = vocab_size - len(SPECIAL) - len(ADDED)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(sampled, trainer)
    learned = tokenizer.get_vocab_size()
    if learned != size:
        raise UserError(
            f"tokens.tokenizer.vocab_size: the sample is enough for {learned + vocab_size - size}, not {vocab_size};"
            " choose at most that"
        )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED])
    return tokenizer


def train(folders: list[Path], settings: TokenizerSettings, out: Path) -> None:
    """Learn a tokenizer from the train splits in `folders` and write it as transformers' AutoTokenizer loads it. Raises
    UserError: the splits differ from their manifests, or hold too little text."""
    for folder in folders:
        read_manifest(folder)
    paths = [split_file(folder, "train") for folder in folders]
    tokenizer = learn(sample(paths, SAMPLE_MEGABYTES), settings.vocab_size)
    with atomic(out / "tokenizer.json") as temporary:
        tokenizer.save(str(temporary))
    write_json(out / "tokenizer_config.json", CONFIG)
    with atomic(out / "chat_template.jinja") as temporary:
        temporary.write_text(CHATML)
    write_manifest(out, LEARNED, vocab_size=tokenizer.get_vocab_size())


def copy(model: Path, out: Path) -> None:
    """Copy the tokenizer of a model folder. Raises UserError: it has no tokenizer.json, or one that the tokenizers
    library cannot load, or no end token."""
    files = TokenizerFiles(model)
    tokenizer = load_library(files)
    files.end  # noqa: B018 - raises where no file names one
    names = [name for name in FILES if (model / name).is_file()]
    for name in names:
        with atomic(out / name) as temporary:
            temporary.write_bytes((model / name).read_bytes())
    write_manifest(out, names, vocab_size=tokenizer.get_vocab_size())


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--from", dest="origin", type=Path, nargs="+", required=True, help="corpus/split, datasets, or a model folder"
    )
    arguments.add_argument(
        "--settings", type=TokenizerSettings.from_json, help="tokens.tokenizer, as JSON; leave it out to copy"
    )
    arguments.add_argument("--out", type=Path, required=True, help="folder for the tokenizer")
    args = arguments.parse_args()
    if args.settings:
        train(args.origin, args.settings, args.out)
    else:
        copy(args.origin[0], args.out)


if __name__ == "__main__":
    run(main)
