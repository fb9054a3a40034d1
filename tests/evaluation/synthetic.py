"""A small results tree in the documented formats, written here without the product's own writers of these files."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import zstandard

from scripts.experiment.layout import raw_manifest, raw_name
from scripts.experiment.settings.experiment import Experiment

LANGUAGES = ["go", "python", "rust"]
# Of ten prompts, how many each model answers right, and what it writes.
RIGHT = {"base": 2, "pretrain": 1, "sft": 6}
WRITTEN = "</pre><script>alert('written')</script>"
# Mean nats per byte of each model, lower after training.
LEVELS = {"base": 2.0, "pretrain": 1.2, "sft": 1.1}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def dump(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def dump_lines(path: Path, records: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(zstandard.compress(lines) if path.suffix == ".zst" else lines)


def manifest(folder: Path, names: list[str], **facts) -> None:
    dump(folder / "manifest.json", {"files": {name: {"bytes": 1, "sha256": sha(name)} for name in names}, **facts})


def gate(name: str, **keys) -> dict:
    return {"name": name, "dataset": "code", "language": "all", "model": "sft", "metric": "bits_per_byte", **keys}


def make_experiment(gates: list[dict], changes: dict[str, object] | None = None) -> Experiment:
    """An experiment, its checks across settings left out.

    Args:
        changes: dotted key → value, e.g. `{"evaluation.gate.fail": True}`; None takes a key away.
    """
    config = {
        "experiment": "synthetic",
        "results": "results",
        "seed": 42,
        "sources": "sources.tsv",
        "corpus": {"compose": {"code": {"kind": "code"}, "instruct": {"kind": "instruct"}}},
        "training": {
            "base": {"model": "scratch"},
            "train": {
                "pretrain": {"from": "base", "data": "code", "sequence_length": 512, "learning_rate": 1e-3},
                "sft": {"from": "pretrain", "data": "instruct", "sequence_length": 1024, "learning_rate": 1e-3},
            },
        },
        "evaluation": {
            "perplexity": {"datasets": ["code", "instruct"]},
            "qa": {"datasets": ["instruct"]},
            "gate": {"confidence": 0.95, "gates": gates, "fail": False},
        },
    }
    for key, value in (changes or {}).items():
        *parents, last = key.split(".")
        node = config
        for parent in parents:
            node = node[parent]
        node[last] = value
        if value is None:
            del node[last]
    return Experiment.parse(config, "synthetic")


def score_items(items: list[dict]) -> dict:
    """scores.json's figures of some items, summed in plain Python."""
    nll, tokens, size = (sum(item[key] for item in items) for key in ("nll", "tokens", "bytes"))
    lines, stand = (sum(item[key] for item in items) for key in ("lines", "lines_as_they_stand"))
    characters, saved = (sum(item[key] for item in items) for key in ("characters", "characters_saved"))
    return {
        "documents": len(items),
        "tokens": tokens,
        "bytes": size,
        "perplexity": math.exp(nll / tokens),
        "bits_per_byte": nll / math.log(2) / size,
        "lines": stand / lines if lines else None,
        "typing_saved": saved / characters if characters else None,
    }


def write_answers(root: Path, model: str, items: list[dict]) -> None:
    """The same for the suite `qa`, its figures means in plain Python."""
    scores, names = {}, ("exact_match", "f1", "strict_match")
    for language in ("all", *LANGUAGES):
        chosen = [item for item in items if language in ("all", item["language"])]
        means = {name: sum(item[name] for item in chosen) / len(chosen) for name in names}
        scores[language] = {"documents": len(chosen), **means}
    folder = root / "results/evaluation/qa" / model
    dump_lines(folder / "items.jsonl.zst", items)
    made = hashlib.sha256((model_folder(root, model) / "manifest.json").read_bytes()).hexdigest()
    facts = {"model": model, "model_sha256": made, "engine": {"name": "transformers"}, "settings": {"seed": 42}}
    dump(folder / "scores.json", facts | {"data": {"instruct": sha("instruct")}, "scores": {"instruct": scores}})


def make_answers(model: str, documents: int) -> list[dict]:
    """Answers to the chats of `instruct`: of each language the first RIGHT[model] tenths right, others half right."""
    return [
        {
            **{key: item[key] for key in ("dataset", "id", "language")},
            "prompt": f"请分析 {item['id']}",
            "reference": "该文件定义了函数 main。",
            "written": [f"{WRITTEN} {model}"],
            "exact_match": float(right),
            "f1": (1 + right) / 2,
            "strict_match": 0.0,
        }
        for item in make_items(model, documents, 1.0)
        if item["dataset"] == "instruct"
        for right in [int(item["id"][4:].split(".")[0]) * 10 < RIGHT[model] * documents]
    ]


def model_folder(root: Path, model: str) -> Path:
    return root / "results/training" / ("base" if model == "base" else f"train/{model}")


def write_model(root: Path, model: str, items: list[dict], data: dict[str, str]) -> None:
    """The evaluation folder of a model: its items, and scores that agree with them."""
    folder = root / "results/evaluation/perplexity" / model
    scores = {}
    for dataset in data:
        chosen = [item for item in items if item["dataset"] == dataset]
        scores[dataset] = {"all": score_items(chosen)}
        for language in {item["language"] for item in chosen}:
            scores[dataset][language] = score_items([item for item in chosen if item["language"] == language])
    dump_lines(folder / "items.jsonl.zst", items)
    made = hashlib.sha256((model_folder(root, model) / "manifest.json").read_bytes()).hexdigest()
    facts = {"model": model, "model_sha256": made, "versions": {"torch": "2"}, "device": "cpu"}
    dump(folder / "scores.json", facts | {"data": data, "scores": scores})


def make_items(model: str, documents: int, level: float) -> list[dict]:
    """`documents` scored documents per language and dataset; alike for all models but for `level` and noise."""
    items = []
    for dataset in ("code", "instruct"):
        draws = np.random.default_rng(7)
        own = np.random.default_rng(int(sha(model)[:8], 16))
        for language in LANGUAGES:
            for number in range(documents):
                tokens = int(draws.integers(50, 400))
                nats = level * float(draws.lognormal(0, 0.3)) * float(own.lognormal(0, 0.05))
                figures = {"nll": nats * tokens, "tokens": tokens, "bytes": tokens * 3}
                lines, right = (20 if dataset == "code" else 0), int(own.integers(1, 5))
                figures |= {"lines": lines, "lines_as_they_stand": right * (lines > 0)}
                figures |= {"characters": 600 * (lines > 0), "characters_saved": 40 * right * (lines > 0)}
                items.append({"dataset": dataset, "id": f"src/{number}.{language}", "language": language, **figures})
    return items


def write_baselines(root: Path, items: list[dict]) -> None:
    """What rule baselines says: a compressor with half the bits of the base, and one with a fifth of them."""
    bits = [item["nll"] / math.log(2) for item in items]
    rows = []
    for item, size in zip(items, bits, strict=True):
        about = {key: item[key] for key in ("dataset", "id", "language", "bytes")}
        rows.append(about | {"compressor": 0.5 * size, "compressor_trained": 0.2 * size})
    dump_lines(root / "results/evaluation/baselines/items.jsonl.zst", rows)
    compressor = {"name": "PPMd", "order": 8, "pyppmd": "1.3.1", "bytes_read": 1_000_000}
    data = {"code": sha("code"), "instruct": sha("instruct")}
    dump(root / "results/evaluation/baselines/scores.json", {"compressor": compressor, "data": data, "scores": {}})


def write_overlaps(root: Path, documents: int) -> None:
    """What rule contamination says: of the Go chats the first half is in the training data."""
    run = {"share": 0.5, "length": 12, "dataset": "code", "document": "src/a.go", "words": WRITTEN}
    overlapping = {f"src/{number}.go": run for number in range(documents // 2)}
    counts = {"data": sha("instruct"), "problems": documents * len(LANGUAGES), "too_short": 1}
    row = counts | {"overlapping": overlapping}
    facts = {"words": 10, "common": 0.05, "train": {"code": sha("train"), "instruct": sha("train")}}
    dump(root / "results/evaluation/contamination/overlaps.json", facts | {"suites": {"qa": {"instruct": row}}})


def build(
    root: Path,
    gates: list[dict],
    documents: int = 10,
    levels: dict[str, float] = LEVELS,
    changes: dict[str, object] | None = None,
) -> Experiment:
    """Write `results/` and `data/raw/` below `root`; return the experiment, changed as `make_experiment` says."""
    experiment, results = make_experiment(gates, changes), root / "results"
    data = {"code": sha("code"), "instruct": sha("instruct")}
    for model in levels:
        manifest(model_folder(root, model), ["model.safetensors", "tokenizer.json"])
        write_model(root, model, make_items(model, documents, levels[model]), data)
        write_answers(root, model, make_answers(model, documents))
    write_overlaps(root, documents)
    write_baselines(root, make_items("base", documents, LEVELS["base"]))
    for number, stage in enumerate(("pretrain", "sft")):
        folder = results / "training/train" / stage
        dump(
            folder / "summary.json", {"stage": stage, "steps": 40, "tokens": 163840, "seconds": 12.5, "eval_loss": 2.1}
        )
        versions = {"torch": "2.13.0", "transformers": "5.23.0"}
        dump(
            folder / "environment.json", {"versions": versions, "gpus": [], "threads": 2, "git_commit": sha(stage)[:40]}
        )
        steps = [
            {
                "step": step,
                "loss": 3 * math.exp(-step / 15) + 2 - number,
                "learning_rate": 1e-3,
                "tokens_per_second": 4e3,
            }
            for step in range(1, 41)
        ]
        steps += [{"step": step, "eval_loss": 3 * math.exp(-step / 15) + 2.2 - number} for step in (20, 40)]
        dump_lines(folder / "metrics.jsonl", steps)

    languages = {name: {"kept": 40, "bytes": 90_000, "dropped": {"too_short": 9, "generated": 1}} for name in LANGUAGES}
    dropped = {"extension": 500, "too_short": 27, "generated": 3}
    for source in ("alpha", "beta"):
        names = ["documents.jsonl.zst", "rejects.jsonl.zst"]
        counts = {"seen": 650, "kept": 120, "dropped": dropped, "languages": languages}
        manifest(results / "corpus/filter" / source, names, **counts)
        row = {"kind": SOURCES[source]["kind"], "pin": SOURCES[source]["pin"]}
        path = root / raw_manifest(raw_name(source, SOURCES[source]["pin"]))
        dump(path, {"sha256": sha(source), "files": 650, "bytes": 10**6, **row})
    kept = {name: {"kept": 70, "bytes": 160_000, "dropped": {"duplicate": 10}} for name in LANGUAGES}
    counts = {"seen": 240, "kept": 210, "dropped": {"duplicate": 30}, "languages": kept}
    manifest(results / "corpus/deduplicate", names, **counts)
    splits = {"train": 180, "validation": 15, "test": 15}
    manifest(results / "corpus/split", ["train.jsonl.zst"], documents=splits)
    for dataset in data:
        manifest(results / "corpus/compose" / dataset, ["test.jsonl.zst"])
    chats = [
        {
            "id": item["id"],
            "language": item["language"],
            "source": "src",
            "messages": [
                {"role": "system", "content": "你是代码分析助手。"},
                {"role": "user", "content": f"请分析 {item['id']}\n\nfn main() {{}}\n"},
                {"role": "assistant", "content": "该文件定义了函数 main。"},
            ],
        }
        for item in make_items("base", documents, 1.0)
        if item["dataset"] == "instruct"
    ]
    dump_lines(results / "corpus/compose/instruct/test.jsonl.zst", chats)
    manifest(results / "tokens/tokenizer", ["tokenizer.json"])
    for shard in ("code-512", "instruct-1024"):
        manifest(results / "tokens/pack" / shard, ["train.tokens.bin"])
    return experiment


SOURCES = {
    name: {
        "name": name,
        "kind": "git",
        "location": f"https://example.org/{name}",
        "pin": sha(name)[:40],
        "licence": "MIT",
    }
    for name in ("alpha", "beta")
}
CODES = {"corpus.filter": "0123456789abcdef", "evaluation.gate": "fedcba9876543210"}
