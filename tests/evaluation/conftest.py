"""A tiny model and datasets that suites are tried on; benchmark files and a sandbox, where there are such."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.common.cli import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.sandbox import bubblewrap as sandboxes
from scripts.evaluation.sandbox import probe
from scripts.evaluation.sandbox.judge import Judge
from scripts.evaluation.sandbox.program import Limits
from scripts.experiment.settings.tokens import Tokenizer as TokenizerSettings
from scripts.tokens.tokenizer import train

ROOT = Path(__file__).parents[2]
UID = next(sandboxes.UIDS)
LIMITS = Limits(seconds=10, memory=512 << 20)
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

    from scripts.training.model import logits_fingerprint

    corpus, folder = tmp_path_factory.mktemp("corpus"), tmp_path_factory.mktemp("models") / "tiny"
    records = [{"text": text, "language": language, "sha256": name} for name, (language, text) in TEXTS.items()]
    write_jsonl(corpus / "train.jsonl.zst", records)
    write_manifest(corpus, ["train.jsonl.zst"])
    train([corpus], TokenizerSettings.model_construct(vocab_size=290, sample_megabytes=1), folder)
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
    logits_fingerprint.save(folder, logits_fingerprint.load_float32(folder))
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


@pytest.fixture(scope="session")
def benchmarks():
    """The folder of the published benchmarks, `../shared/data/benchmarks` of the main checkout."""
    common = subprocess.run(
        ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    for checkout in (ROOT, Path(common).parent):
        folder = checkout.parent / "shared/data/benchmarks"
        if folder.is_dir():
            return folder
    return pytest.skip("the published benchmarks are not beside the checkout")


@pytest.fixture(scope="session")
def sandbox():
    if not shutil.which("bwrap"):
        pytest.skip("needs bubblewrap: apt-get install bubblewrap")
    try:
        return probe.sandbox()
    except UserError as error:
        if "no sandbox can be made here" in str(error):  # one that does not hold is a failure
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def judge(sandbox):
    return Judge(sandbox, LIMITS)


@pytest.fixture
def unharmed():
    """Sees that no process stays behind."""
    before = processes()
    yield
    for _ in range(100):
        if not (left := processes() - before):
            break
        time.sleep(0.05)
    assert not left


def processes() -> set[str]:
    """Ids of this process's bubblewraps, and of the processes of its sandboxes' users."""
    ids = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(
                line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line
            )
        except OSError:
            continue
        descends = status["PPid"] == str(os.getpid()) and status["Name"] == "bwrap"
        own = int(status["Uid"].split()[0]) // 1000 == UID // 1000
        if descends or own:
            ids.add(folder.name)
    return ids
