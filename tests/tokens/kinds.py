"""Small tokenizers of every kind that models bring, made by the tokenizers library, with the files beside them.

    folder = write(tmp_path, "llama2")

A kind is what its model family's tokenizer.json holds: normalizer, pre-tokenizer, model, decoder, template of control
tokens around a text, and the names of the end and other tokens in the family's own files.
"""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from scripts.tokens.tokenizer import PRE_TOKENIZER as QWEN

SIZE = 700
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LLAMA2_CHAT = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content | trim + ' [/INST]' }}"
    "{% elif m.role == 'system' %}{{ '<<SYS>>\\n' + m.content + '\\n<</SYS>>\\n\\n' }}"
    "{% else %}{{ ' ' + m.content | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
)
MISTRAL_CHAT = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"
)
GEMMA_CHAT = (
    "{{ bos_token }}{% for m in messages %}{% set role = 'model' if m.role == 'assistant' else m.role %}"
    "{{ '<start_of_turn>' + role + '\\n' + m.content | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
PHI3_CHAT = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)


class Kind(NamedTuple):
    """The tokenizer before training, and the family's other files."""

    model: models.Model
    trainer: trainers.Trainer
    normalizer: normalizers.Normalizer | None = None
    pre_tokenizer: pre_tokenizers.PreTokenizer | None = None
    decoder: decoders.Decoder | None = None
    prefix: str = ""  # the token before a text
    suffix: str = ""  # the token behind a text, beside the end
    special: tuple[str, ...] = ()  # further control tokens
    added: tuple[str, ...] = ()  # added tokens that are not special
    config: dict = {}  # noqa: RUF012 - tokenizer_config.json
    chat: str | None = None
    fim: tuple[str, ...] = ()


def byte_level(pattern: str | None, add_prefix_space: bool = False) -> pre_tokenizers.PreTokenizer:
    if pattern is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    last = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), last])


def bpe(special: list[str] = (), size: int = SIZE, alphabet: bool = True) -> trainers.BpeTrainer:
    letters = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    return trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=letters, special_tokens=list(special), show_progress=False
    )


def fallback(special: list[str]) -> dict:
    return {
        "model": models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"),
        "trainer": bpe([*special, *BYTES], SIZE + 300, alphabet=False),
    }


def metaspace_decoder(strip: bool = True) -> decoders.Decoder:
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(parts + [decoders.Strip(" ", 1, 0)] * strip)


def unigram(special: list[str], **options) -> trainers.UnigramTrainer:
    return trainers.UnigramTrainer(
        vocab_size=SIZE, special_tokens=special, unk_token="<unk>", show_progress=False, **options
    )


@cache
def kinds() -> dict[str, Kind]:
    end = "<|endoftext|>"
    byte = {"decoder": decoders.ByteLevel(), "trainer": bpe()}
    prepend = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    first = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return {
        "qwen": Kind(
            models.BPE(), normalizer=normalizers.NFC(), pre_tokenizer=byte_level(QWEN), **byte,
            special=(end, "<|im_start|>", "<|im_end|>"), added=("<tool_call>", "<|fim_prefix|>"),
            config={"eos_token": "<|im_end|>"},
        ),
        "gpt2": Kind(
            models.BPE(), pre_tokenizer=byte_level(None), **byte, special=(end,), config={"eos_token": end}
        ),
        "gpt-neox": Kind(
            models.BPE(), normalizer=normalizers.NFC(), pre_tokenizer=byte_level(None), **byte, special=(end,),
            added=("  ", "    ", "        ", "|||EMAIL_ADDRESS|||"), config={"eos_token": {"content": end}},
        ),
        "starcoder": Kind(
            models.BPE(), pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level(None)]),
            **byte, special=(end, "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"),
            config={"eos_token": end}, fim=("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        ),
        "llama3": Kind(
            models.BPE(ignore_merges=True), pre_tokenizer=byte_level(LLAMA3), **byte, prefix="<|begin_of_text|>",
            special=("<|end_of_text|>", "<|eot_id|>"), config={"eos_token": "<|eot_id|>"},
        ),
        "roberta": Kind(
            models.BPE(), pre_tokenizer=byte_level(None, add_prefix_space=True), **byte, prefix="<s>", suffix="</s>",
            config={"eos_token": "</s>"},
        ),
        "llama2": Kind(
            **fallback(["<unk>", "<s>", "</s>"]), normalizer=prepend, decoder=metaspace_decoder(), prefix="<s>",
            config={"bos_token": "<s>", "eos_token": "</s>"}, chat=LLAMA2_CHAT,
        ),
        "codellama": Kind(
            **fallback(["<unk>", "<s>", "</s>"]), normalizer=prepend, decoder=metaspace_decoder(), prefix="<s>",
            special=("▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"), config={"bos_token": "<s>", "eos_token": "</s>"},
            fim=("▁<PRE>", "▁<SUF>", "▁<MID>"),
        ),
        "mistral": Kind(
            **fallback(["<unk>", "<s>", "</s>"]), pre_tokenizer=first, decoder=metaspace_decoder(), prefix="<s>",
            special=("[INST]", "[/INST]"), config={"bos_token": "<s>", "eos_token": "</s>"},
            chat=MISTRAL_CHAT,
        ),
        "phi3": Kind(
            **fallback(["<unk>", "<s>", "</s>"]), normalizer=prepend, decoder=metaspace_decoder(),
            special=(end, "<|assistant|>", "<|end|>", "<|user|>", "<|system|>"),
            config={"eos_token": end, "pad_token": end}, chat=PHI3_CHAT,
        ),
        "gemma": Kind(
            **fallback(["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]),
            normalizer=normalizers.Replace(" ", "▁"), pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"),
            decoder=metaspace_decoder(strip=False), prefix="<bos>",
            added=("<h1>", "\n\n", "\n\n\n", "▁▁", "▁▁▁▁", "<unused0>"),
            config={"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}, chat=GEMMA_CHAT,
        ),
        "t5": Kind(
            models.Unigram(), trainer=unigram(["<pad>", "</s>", "<unk>"]), normalizer=normalizers.NFKC(),
            pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace(), suffix="</s>",
            config={"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
        ),
        "unigram-bytes": Kind(
            models.Unigram(), trainer=unigram(["<unk>", "<s>", "</s>", *BYTES]), pre_tokenizer=first,
            decoder=metaspace_decoder(), prefix="<s>", config={"eos_token": "</s>"},
        ),
        "wordpiece": Kind(
            models.WordPiece(unk_token="[UNK]"),
            trainer=trainers.WordPieceTrainer(
                vocab_size=SIZE, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False
            ),
            normalizer=normalizers.BertNormalizer(lowercase=False), pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
            decoder=decoders.WordPiece(), prefix="[CLS]", suffix="[SEP]",
            config={"sep_token": "[SEP]", "pad_token": "[PAD]"},
        ),
        "words": Kind(
            models.WordLevel(unk_token="<unk>"),
            trainer=trainers.WordLevelTrainer(special_tokens=["<unk>", "</s>"], show_progress=False),
            pre_tokenizer=pre_tokenizers.WhitespaceSplit(), config={"eos_token": "</s>"},
        ),
    }  # fmt: skip


@cache
def texts() -> tuple[str, ...]:
    """Half a megabyte of Python out of the standard library."""
    return tuple(path.read_text() for path in sorted(Path(json.__file__).parents[1].glob("[a-c]*.py")))


@cache
def trained(name: str) -> Tokenizer:
    kind = kinds()[name]
    tokenizer = Tokenizer(kind.model)
    if kind.normalizer:
        tokenizer.normalizer = kind.normalizer
    if kind.pre_tokenizer:
        tokenizer.pre_tokenizer = kind.pre_tokenizer
    if kind.decoder:
        tokenizer.decoder = kind.decoder
    # a metaspace vocabulary without splits would learn whole files; in lines it learns words and indentation
    lines = [line for text in texts() for line in text.splitlines(keepends=True)]
    tokenizer.train_from_iterator(lines[:2000], kind.trainer)
    description = json.loads(tokenizer.to_str())
    description["added_tokens"] = [token for token in description["added_tokens"] if token["content"] not in BYTES]
    if name == "unigram-bytes":
        description["model"]["byte_fallback"] = True
    tokenizer = Tokenizer.from_str(json.dumps(description))
    control = [token for token in (kind.prefix, kind.suffix, *kind.special) if token]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in kind.added])
    if kind.prefix or kind.suffix:
        around = [token for token in (kind.prefix, "$A", kind.suffix) if token]
        ids = [(token, tokenizer.token_to_id(token)) for token in (kind.prefix, kind.suffix) if token]
        tokenizer.post_processor = processors.TemplateProcessing(single=" ".join(around), special_tokens=ids)
    return tokenizer


def write(folder: Path, name: str) -> Path:
    """Write the files of one kind to a new folder, and return it."""
    kind, place = kinds()[name], folder / name
    place.mkdir()
    trained(name).save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps(kind.config))
    if kind.chat:
        (place / "chat_template.jinja").write_text(kind.chat)
    return place
