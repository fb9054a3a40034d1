"""A tiny model and datasets that suites are tried on; benchmark files and a sandbox, where there are such."""

import sys

import pytest

from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.experiment.settings.training import Tokenizer as TokenizerSettings
from scripts.tokens.tokenizer import train
from tests.judge.fixtures import benchmarks, judge, sandbox, unharmed

__all__ = ["benchmarks", "judge", "sandbox", "unharmed"]

TEXTS = {
    f"s/{i}.{language}": (language, f"def f{i}(x):\n    return x + {i}  # 你好 e\u0301 naïve\n" * (1 + 3 * i % 7))
    for i in range(12)
    for language in ("python", "go")
}
CHATS = {
    f"c/{i}": [
        {"role": "user", "content": f"What does f{i} do?" * (i + 1)},
        {"role": "assistant", "content": f"它返回 x + {i}。" * (i + 1)},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes." * i},
    ]
    for i in range(5)
}


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A randomly initialised Qwen2 with large weights, so that a wrong position or mask shows, and its tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    corpus, folder = tmp_path_factory.mktemp("corpus"), tmp_path_factory.mktemp("models") / "tiny"
    records = [{"text": text, "language": language, "sha256": name} for name, (language, text) in TEXTS.items()]
    write_jsonl(corpus / "train.jsonl.zst", records)
    write_manifest(corpus, ["train.jsonl.zst"])
    train([corpus], TokenizerSettings.model_construct(vocab_size=290), folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.5,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    names = sorted(path.name for path in folder.iterdir() if path.name != "manifest.json")
    write_manifest(folder, names)
    return folder


@pytest.fixture(scope="session")
def datasets(tmp_path_factory):
    """A corpus/compose folder with texts and chats."""
    folder = tmp_path_factory.mktemp("compose")
    code = [{"id": name, "language": language, "text": text} for name, (language, text) in TEXTS.items()]
    chats = [{"id": name, "language": "python", "messages": messages} for name, messages in CHATS.items()]
    for name, examples in {"code": code, "instruct": chats, "empty": []}.items():
        write_jsonl(folder / name / "test.jsonl.zst", examples)
        write_manifest(folder / name, ["test.jsonl.zst"])
    return folder


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices on several threads mostly wait for each other."""
    torch = sys.modules.get("torch")
    if not torch:  # quick tests run without it
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
