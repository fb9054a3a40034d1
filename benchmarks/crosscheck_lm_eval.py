"""Perplexity and exact match of one model by this project and by lm-eval, on the same texts and chats, offline.

    uv pip install lm-eval            # not in the lock: nothing else needs it
    python -m benchmarks.crosscheck_lm_eval --model results/training/train/sft

Texts are the heads of modules of Python's standard library; each is scored from its second token on. Chats ask about
them; every other reference is what lm-eval let the model answer, so that half of the answers are right by construction.
"""

import json
import math
import tempfile
from pathlib import Path

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import exact_match_hf_evaluate
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

from scripts.common.cli import parser, run
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation import qa
from scripts.evaluation.generation.chat_suite import score
from scripts.evaluation.perplexity import perplexity
from scripts.experiment.settings.evaluation import Perplexity, Qa
from scripts.tokens.packing.encoder import Encoder

MODULES = ("argparse", "bisect", "calendar", "dataclasses", "enum", "fnmatch", "glob", "heapq", "json/decoder", "queue")


def dataset(folder: Path, name: str, examples: list[dict]) -> None:
    write_jsonl(folder / name / "test.jsonl.zst", examples)
    write_manifest(folder / name, ["test.jsonl.zst"])


def ask(kind: str, arguments: list[tuple], lm: HFLM) -> list:
    requests = [Instance(kind, {}, pair, number) for number, pair in enumerate(arguments)]
    return getattr(lm, kind)(requests, disable_tqdm=True)


def perplexities(model: Path, lm: HFLM, texts: dict[str, str], folder: Path) -> tuple[float, float]:
    """(ours, lm-eval's)."""
    examples = [{"id": name, "language": "python", "text": text} for name, text in texts.items()]
    dataset(folder, "texts", examples)
    settings = Perplexity(datasets=["texts"], documents=100, context=4096, stride=2048)
    ours = perplexity(model, folder, settings, folder / "perplexity")["scores"]["texts"]["all"]
    encoded = [Encoder(model).encode([example]).ids.tolist() for example in examples]
    pairs = [(("", ""), ids[:1], ids[1:]) for ids in encoded]
    theirs = -sum(nats for nats, _ in lm._loglikelihood_tokens(pairs, disable_tqdm=True))
    return ours["perplexity"], math.exp(theirs / ours["tokens"])


def exact_matches(model: Path, lm: HFLM, texts: dict[str, str], folder: Path) -> tuple[float, float]:
    """(ours, lm-eval's)."""
    questions = [[{"role": "user", "content": f"What does this do?\n{text[:200]}"}] for text in texts.values()]
    prompts = [
        lm.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True) for turns in questions
    ]
    options = {"until": ["<|im_end|>"], "do_sample": False, "max_gen_toks": 40, "repetition_penalty": 1.1}
    answers = [answer.strip() for answer in ask("generate_until", [(prompt, options) for prompt in prompts], lm)]
    references = [answer if number % 2 else "another answer" for number, answer in enumerate(answers)]
    chats = [
        {"id": name, "language": "python", "messages": [*turns, {"role": "assistant", "content": reference}]}
        for name, turns, reference in zip(texts, questions, references, strict=True)
    ]
    dataset(folder, "chats", chats)
    settings = Qa(datasets=["chats"], documents=100, max_new_tokens=40, repetition_penalty=1.1)
    ours = score(qa.SCORER, model, folder, settings, 42, folder / "qa")
    options = {"ignore_case": True, "ignore_punctuation": True}
    theirs = exact_match_hf_evaluate(predictions=answers, references=references, **options)
    return ours["scores"]["chats"]["all"]["exact_match"], float(theirs["exact_match"])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--model", type=Path, required=True, help="model folder")
    folder = arguments.parse_args().model
    texts = {name: (Path(json.__file__).parents[1] / f"{name}.py").read_text()[:3000] for name in MODULES}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pretrained = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    lm = HFLM(pretrained=pretrained, tokenizer=tokenizer, batch_size=1, max_length=4096)
    with tempfile.TemporaryDirectory() as temporary:
        for name, compare in (("perplexity", perplexities), ("exact match", exact_matches)):
            ours, theirs = compare(folder, lm, texts, Path(temporary))
            print(f"{name}: ours {ours:.6f}, lm-eval {theirs:.6f}, apart by {abs(ours - theirs):.1e}")


if __name__ == "__main__":
    run(main)
