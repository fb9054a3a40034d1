"""A released model is the one that was trained: for transformers, for llama.cpp itself, and by its own papers."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file
from scripts.experiment.layout import Layout
from scripts.experiment.settings.training import Release
from scripts.release.card import CARD, EVIDENCE, NOTICE, SUMS, check_release, verdict_of
from scripts.release.gguf_file import check_gguf
from scripts.release.proof import ODD_TEXTS, Samples, failed, lost_bits, prove, stranger_model
from scripts.release.release import samples_of, write_model
from tests.workflow.engine import Engine, below_the_best

pytestmark = pytest.mark.fault("a release", "release")

STAGE = "sft"


@pytest.fixture(scope="module")
def clone(finished, tmp_path_factory):
    """The finished experiment with a release of its last stage; its keywords are asked for greedily, as by default."""
    copy = finished.copy(tmp_path_factory.mktemp("release") / "clone")
    copy.experiment(lambda config: config.update(release={"gguf": ["f16", "q8_0"], "licence": "mit"}))
    copy.snakemake(f"results/release/{STAGE}/manifest.json")
    return copy


@pytest.fixture(scope="module")
def released(clone) -> Path:
    return clone.root / f"results/release/{STAGE}"


@pytest.fixture(scope="module")
def trained(clone) -> Path:
    return clone.root / f"results/training/train/{STAGE}"


@pytest.fixture(scope="module")
def samples(clone) -> Samples:
    layout = Layout(clone.root / "results")
    return samples_of(
        layout, STAGE, ["code", "instruct"], read_json(layout.evaluation)["inputs"]["experiment"]["evaluation"]
    )


def test_llama_cpp_cuts_every_text_and_chat_as_transformers_does_and_writes_the_same(released, samples):
    """The tokenizer was learned here; llama.cpp knows its pre-tokenizer, which is Qwen2's, and has no normalizer."""
    engine, tokenizer = Engine(released / "tiny-sft-f16.gguf"), AutoTokenizer.from_pretrained(released)
    composed = [text for text in [*ODD_TEXTS[1:], *samples.texts[:3000]] if text.isascii() or text in ODD_TEXTS[1:5]]
    assert len(composed) > 1000
    for text in composed:
        ids = engine.ask("/tokenize", content=text, add_special=False, parse_special=True)["tokens"]
        assert ids == tokenizer.encode(text, add_special_tokens=False), text
    for chat in samples.chats[:20]:
        prompt = engine.ask("/apply-template", messages=chat[:-1])["prompt"]
        assert prompt == tokenizer.apply_chat_template(chat[:-1], tokenize=False, add_generation_prompt=True)
    model = stranger_model(released)
    for text in [text for text in composed if text in samples.texts][:8]:
        written = engine.complete(text, 12)
        assert written and below_the_best(model, tokenizer(text)["input_ids"], written) < 0.1


def test_the_cards_snippet_runs_as_it_stands(released):
    (snippet,) = re.findall(r"```python\n(.*?)```", (released / CARD).read_text(), re.S)
    done = subprocess.run([sys.executable, "-c", snippet], cwd=released, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout, done.stderr[-2000:]


def test_the_card_says_what_the_run_says(clone, released):
    card, evaluation = (released / CARD).read_text(), read_json(clone.root / "results/eval.json")
    cards = read_json(clone.root / "results/report/cards/cards.json")
    for dataset in ("code", "instruct"):
        for name, source in cards[dataset]["sources"].items():
            assert f"| {dataset} | {name} | {source['kind']} " in card and source["pin"] in card
    score = evaluation["scores"][STAGE]["perplexity"]["code"]["all"]["bits_per_byte"]["value"]
    assert f"| perplexity | code | bits\\_per\\_byte | less | {score:.4g} | " in card
    assert not [gate for gate in evaluation["gates"] if gate["model"] == STAGE]
    assert "No gate of its evaluation is about this stage. Shown to be better than pretrain" in card
    read = ModelCard(card).data  # as the hub reads it
    assert (read.license, read.datasets, read.model_name) == ("mit", ["code", "instruct"], "tiny-sft")
    assert score in [result.metric_value for result in read.eval_results]
    assert "PSF-2.0" in (released / NOTICE).read_text()
    proofs = {row["name"]: row for row in read_json(released / EVIDENCE)["evidence"]["proof"]}
    assert all(proofs[name]["holds"] for name in ("token ids of texts", "token ids of chats", "end tokens", "logits"))
    assert {"bits per byte, tiny-sft-f16.gguf", "bits per byte, tiny-sft-q8_0.gguf"} <= proofs.keys()


def edit(name: str, change):
    """A fault in a JSON file of the release."""

    def plant(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return plant


def another_template(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text().replace("<|im_end|>", "<|im_end|> ", 1))


def merged_into_four_bits(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    for name, values in tensors.items():
        if values.ndim == 2:
            step = values.abs().amax(dim=1, keepdim=True) / 7
            tensors[name] = torch.round(values / step) * step
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def shift_vocabulary(tokenizer: dict) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    names = sorted(vocabulary, key=vocabulary.get)
    tokenizer["model"]["vocab"] = {name: (vocabulary[name] + 1) % len(names) for name in names}


FAULTS = {
    "another template": (another_template, "token ids of chats"),
    "another end token": (edit("generation_config.json", lambda c: c.update(eos_token_id=[5])), "end tokens"),
    "an untied head": (edit("config.json", lambda c: c.update(tie_word_embeddings=False)), "logits"),
    "a merge into 4-bit weights": (merged_into_four_bits, "logits"),
    "a shifted vocabulary": (edit("tokenizer.json", shift_vocabulary), "token ids of texts"),
    "a dropped normalizer": (edit("tokenizer.json", lambda c: c.update(normalizer=None)), "token ids of texts"),
    "another rope theta": (edit("config.json", lambda c: c["rope_parameters"].update(rope_theta=1e4)), "logits"),
    "one merge less": (edit("tokenizer.json", lambda c: c["model"]["merges"].pop(0)), "token ids of texts"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(trained, released, samples, tmp_path, fault):
    plant, line = FAULTS[fault]
    few = Samples(samples.texts[:400], samples.chats[:5], [], samples.documents[:6])
    assert failed(prove(trained, released, few, [])) == []
    copy = shutil.copytree(released, tmp_path / "copy", ignore=shutil.ignore_patterns("*.gguf"))
    plant(copy)
    assert line in [found.name for found in failed(prove(trained, copy, few, []))]


@pytest.mark.parametrize("stage", ["pretrain", STAGE])  # on texts alone, and on chats
def test_weights_rounded_to_bf16_are_those_of_the_trained_model_rounded_once(clone, samples, tmp_path, stage):
    trained = clone.root / f"results/training/train/{stage}"
    write_model(trained, Release(precision="bf16"), tmp_path)
    assert {values.dtype for values in load_file(tmp_path / "model.safetensors").values()} == {torch.bfloat16}
    chats = samples.chats[:5] if stage == STAGE else []
    few = Samples(samples.texts[:100], chats, [], samples.documents[:6])
    lines = prove(trained, tmp_path, few, [])
    assert failed(lines) == [] and lines[-1].holds is None and "documents" in lines[-1].text


def summed_again(folder: Path) -> None:
    """What a careful forger does, too: the checksums are made again."""
    names = [line.partition("  ")[2] for line in (folder / SUMS).read_text().splitlines()]
    present = [name for name in names if (folder / name).is_file()]
    (folder / SUMS).write_text("".join(f"{sha256_file(folder / name)}  {name}\n" for name in present))


def forge(name: str, change, again: bool = True):
    def tamper(folder: Path) -> None:
        change(folder / name)
        if again:
            summed_again(folder)

    return tamper


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def replace(old: str, new: str):
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


def in_evidence(edit_evidence):
    def change(path: Path) -> None:
        content = json.loads(path.read_text())
        edit_evidence(content["evidence"])
        path.write_text(json.dumps(content))

    return change


TAMPERING = {
    "a bit of the weights": forge("model.safetensors", flip, again=False),
    "weights and their checksum": forge("model.safetensors", flip),
    "a GGUF file": forge("tiny-sft-q8_0.gguf", flip),
    "the tokenizer": forge("tokenizer.json", replace('"normalizer":', '"normalizer" :')),
    "the chat template": forge("chat_template.jinja", replace("im_start", "im_begin")),
    "the end tokens": forge("generation_config.json", replace("eos_token_id", "eos_token")),
    "the config": forge("config.json", replace('"num_hidden_layers": 2', '"num_hidden_layers": 1')),
    "the Modelfile": forge("Modelfile", replace("FROM", "from")),
    "a score on the card": forge(CARD, replace("| perplexity | code |", "| perplexity | Code |")),
    "the licence on the card": forge(CARD, replace("license: mit", "license: apache-2.0")),
    "the verdict on the card": forge(CARD, replace("better than pretrain", "better than all")),
    "a notice": forge(NOTICE, replace("PSF-2.0", "MIT")),
    "a score in the evidence": forge(EVIDENCE, in_evidence(lambda e: e["scores"][0].update(value=0.1))),
    "a source in the evidence": forge(EVIDENCE, in_evidence(lambda e: e["datasets"]["code"]["sources"].popitem())),
    "a failed comparison in the evidence": forge(EVIDENCE, in_evidence(lambda e: e["proof"][0].update(holds=False))),
    "evidence that is no JSON": forge(EVIDENCE, lambda path: path.write_text("{")),
    "a missing file": forge("Modelfile", Path.unlink),
    "a missing file, with its line": forge("Modelfile", Path.unlink, again=True),
    "a file more": forge("tool.py", lambda path: path.write_text("print(1)"), again=False),
    "a checksum twice": forge(SUMS, lambda path: path.write_text(path.read_text() * 2), again=False),
    "no checksums": forge(SUMS, lambda path: path.write_text(""), again=False),
    "the manifest": forge("manifest.json", lambda path: path.write_text("{}"), again=False),
}


@pytest.mark.parametrize("harm", TAMPERING)
def test_tampering_is_found_by_the_folders_own_files(released, tmp_path, harm):
    copy = shutil.copytree(released, tmp_path / "copy")
    TAMPERING[harm](copy)
    assert check_release(copy)


def test_a_copy_in_an_empty_folder_is_verified_without_any_results(released, tmp_path):
    shutil.copytree(released, tmp_path / "elsewhere/model")
    words = [sys.executable, "-m", "scripts.cli", "verify", str(tmp_path / "elsewhere/model")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "card, notices and checksums are those of seal" in done.stdout
    assert done.stdout.count("not checked: ") == 3
    sums = subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=tmp_path / "elsewhere/model", check=False)
    assert sums.returncode == 0
    flip(tmp_path / "elsewhere/model/model.safetensors")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "model.safetensors: its sha256 is not that of SHA256SUMS" in done.stdout
    with pytest.raises(UserError, match="no such file; a release has"):
        check_release(tmp_path)


def test_a_stranger_checks_a_release_with_python_alone(released, tmp_path):
    copy = shutil.copytree(released, tmp_path / "elsewhere/model")
    card = (copy / CARD).read_text()
    assert card.index("sha256sum -c SHA256SUMS") < card.index("python3 check.py") < card.index("trained in")
    words = [sys.executable, "-I", "-S", "check.py"]
    done = subprocess.run(words, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "all files are those of seal" in done.stdout, done.stderr
    for harm in (lambda: flip(copy / "model.safetensors"), lambda: (copy / "more.py").write_text("x")):
        harm()
        done = subprocess.run(words, cwd=copy, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "things are wrong; get the release again" in done.stderr
    (copy / "evidence.json").write_text("{")
    done = subprocess.run(words, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "not a whole release" in done.stderr and "Traceback" not in done.stderr


def test_a_card_speaks_of_its_own_stage_alone():
    evidence = {"gates": [], "verdict": "no gates", "comparisons": []}
    assert verdict_of(evidence) == "No gate of its evaluation is about this stage."
    row = {"against": "pretrain", "dataset": "code", "metric": "bits_per_byte", "value": 0.0315, "direction": "worse"}
    evidence |= {"gates": [{}], "verdict": "met", "comparisons": [row | {"interval": [0.02, 0.04]}]}
    assert verdict_of(evidence) == (
        "Its gates (1): met. Shown to be worse than pretrain: code bits per byte +0.0315 (0.02 to 0.04)."
    )


@pytest.mark.parametrize(
    ("config", "tokenizer", "line"),
    [
        (
            {"model_type": "gemma3"},
            {},
            "release.gguf: gemma3: only llama, qwen2, qwen3 are written here; run llama.cpp's",
        ),
        ({"rope_parameters": {"rope_type": "yarn"}}, {}, "release.gguf: RoPE of type yarn is not written here"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, {}, "release.gguf: RoPE of type linear is not"),
        ({}, {"pre_tokenizer": {"type": "Whitespace"}}, "release.gguf: llama.cpp does not know this tokenizer"),
        ({}, {"model": {"type": "Unigram"}}, "release.gguf: llama.cpp does not know this tokenizer"),
    ],
)
def test_what_llama_cpp_cannot_run_is_refused_before_anything_is_written(released, config, tokenizer, line):
    whole = read_json(released / "config.json"), read_json(released / "tokenizer.json")
    check_gguf(*whole)
    with pytest.raises(UserError, match=re.escape(line)):
        check_gguf(whole[0] | config, whole[1] | tokenizer)


@pytest.mark.parametrize(
    ("lost", "exact", "refused"),
    [(0.003, False, False), (0.176, False, True), (-0.1, False, False), (0.003, True, True), (0.0, True, False)],
)
def test_what_rounding_costs_is_said_and_a_release_that_loses_more_is_not_written(lost, exact, refused):
    before = np.linspace(0.8, 1.4, 8)
    line = lost_bits("x-q8_0.gguf", before, before + lost, 0.95, exact)
    assert bool(failed([line])) == refused
    assert f"{lost:+.5f}" in line.text and "8 documents" in line.text
    assert bool(failed([lost_bits("x", before[:3], before[:3] + lost, 0.95, exact)])) == refused
