"""How often rule `ablation` flags arms that do nothing, and finds arms that do something, with real models.

    python -m benchmarks.real_arms --runs 100

A 2-layer model is trained `runs` times with the same settings and other seeds, and a few times on rows of which most
are noise (a filter that lets rubbish through) and on more rows (a useful dataset). All are scored on the same 60
documents.
Families are then drawn out of the runs: three seeds of the experiment against three of each of two arms, 200 times.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.manifest import write_manifest
from scripts.evaluation.generation.likelihood import negative_log_likelihood
from scripts.experiment.arms import REFERENCE
from scripts.report.ablation import compare_arms, give_verdicts
from scripts.tokens.packing.encoder import Encoded
from scripts.training.base import base
from tests import forked
from tests.training import conftest as tiny

SEEDS, FAMILIES, PLANTED = 3, 200, 6
ABOUT = {"suite": "perplexity", "dataset": "test", "metric": "nats per token", "better": "below", "documents": 60}


def write_shards(folder: Path, rows: int, noise: int = 0) -> Path:
    """The rows that tests train on, `noise` of them replaced by random tokens."""
    folder.mkdir()
    splits = {
        split: tiny.write_split(folder, split, count, np.random.default_rng(number))
        for number, (split, count) in enumerate({"train": rows, "validation": 6}.items())
    }
    tokens = np.memmap(folder / "train.tokens.bin", np.uint32, "r+", shape=(rows, tiny.LENGTH))
    tokens[:noise] = np.random.default_rng(9).integers(1, tiny.VOCABULARY, (noise, tiny.LENGTH))
    tokens.flush()
    names = [
        f"{split}.{file}" for split in splits for file in ("tokens.bin", "flags.bin", "pieces.npy", "documents.txt")
    ]
    write_manifest(folder, names, length=tiny.LENGTH, vocab_size=tiny.VOCABULARY, end_tokens=[0], splits=splits)
    return folder


def test_documents(count: int = 60, length: int = 24) -> Encoded:
    """Documents that count up, as those trained on do."""
    starts = np.random.default_rng(5).integers(0, tiny.VOCABULARY - length, count)
    ids = (starts[:, None] + np.arange(length)).astype(np.uint32)
    return Encoded(ids.ravel(), np.tile(np.arange(length) > 0, count), np.arange(0, ids.size + 1, length))


def scored_run(origin: Path, shards: Path, folder: Path, seed: int, documents: Encoded) -> np.ndarray:
    """float64 [documents]: nats per token of a model trained with this seed."""
    machine, settings = folder / "machine.yaml", tiny.stage(steps=40, learning_rate=1e-2).model_dump_json(by_alias=True)
    machine.write_text(str(tiny.MACHINE).replace("'", '"').replace("False", "false").replace("True", "true"))
    out = folder / f"{shards.name}-{seed}"
    words = ["--machine", machine, "--threads", "1", "scripts.training.train", "--stage", "sft", "--settings", settings]
    words += ["--seed", seed, "--code", "0", "--origin", origin, "--shards", shards, "--work", out / "work"]
    done = forked.run([sys.executable, "-m", "scripts.training.launch", *map(str, words), "--out", str(out / "model")])
    if done.returncode:
        raise UserError(done.stderr[-2000:])
    model = AutoModelForCausalLM.from_pretrained(out / "model", dtype=torch.float32)
    nll = negative_log_likelihood(model, documents, tiny.LENGTH, tiny.LENGTH, "documents")
    return nll / np.add.reduceat(documents.targets, documents.offsets[:-1], dtype=np.int64)


def verdicts(reference: list[np.ndarray], arms: dict[str, list[np.ndarray]]) -> dict[str, str]:
    """The verdict on each arm."""
    values, models = {}, {}
    for arm, runs in {REFERENCE: reference, **arms}.items():
        models[arm] = [f"{arm}{number}" for number in range(len(runs))]
        values |= dict(zip(models[arm], runs, strict=True))
    return {row.arm: row.verdict for row in give_verdicts(compare_arms(values, 60, models, 0.95, ABOUT), 0.95)}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=int, default=100, help="runs with the same settings")
    runs = arguments.parse_args().runs
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        folder, documents = Path(work), test_documents()
        base(tiny.scratch(), 1, tiny.tokenizer.__wrapped__(Folders(folder)), folder / "base")
        runs_of_kind = {
            "same": (runs, write_shards(folder / "same", 8)),
            "harmful filter": (PLANTED, write_shards(folder / "harmful", 8, noise=6)),
            "useful dataset": (PLANTED, write_shards(folder / "useful", 240)),
        }
        scored = {
            kind: [scored_run(folder / "base", shards, folder, seed, documents) for seed in range(count)]
            for kind, (count, shards) in runs_of_kind.items()
        }
    for kind, arrays in scored.items():
        means = [float(nats.mean()) for nats in arrays]
        mean, spread = np.mean(means), np.std(means, ddof=1)
        print(f"{kind}: {len(arrays)} runs, {mean:.4f} nats per token, {spread:.4f} between seeds")
    generator, flagged, right = np.random.default_rng(0), 0, dict.fromkeys(list(scored)[1:], 0)
    expected = {"harmful filter": "hurt", "useful dataset": "helped"}
    for _ in range(FAMILIES):
        first, second, third = np.split(generator.permutation(runs)[: 3 * SEEDS], 3)
        same = [[scored["same"][number] for number in part] for part in (first, second, third)]
        flagged += any(
            verdict in ("helped", "hurt") for verdict in verdicts(same[0], {"a": same[1], "b": same[2]}).values()
        )
        planted = {
            kind: [scored[kind][number] for number in generator.permutation(PLANTED)[:SEEDS]] for kind in expected
        }
        for kind, verdict in verdicts(same[0], planted).items():
            right[kind] += verdict == expected[kind]
    print(f"arms that do nothing: {flagged} of {FAMILIES} families of two arms with {SEEDS} seeds are flagged")
    for kind, count in right.items():
        print(f"{kind}: found in {count} of {FAMILIES}")


class Folders:
    """What the fixture `tokenizer` asks for its folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def mktemp(self, name: str) -> Path:
        (self.folder / name).mkdir()
        return self.folder / name


if __name__ == "__main__":
    run(main)
