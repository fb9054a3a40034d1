"""A stage on a mixture, from its settings to its weights: the rows it is given, its epochs, its reruns."""

from collections import Counter

import pytest

from scripts.common.files import read_json
from scripts.tokens.packing.shards import Shards

pytestmark = pytest.mark.slow
LENGTH, BATCH, EPOCHS = 1024, 8, 2
PARTS = {"code": {"weight": 2}, "instruct": {"weight": 1, "max_epochs": 1.5}}
MANIFEST, PLAN = "results/training/train/mixed/manifest.json", "results/training/plan/mixed.json"
STAGE = {
    "global_batch_size": BATCH,
    "epochs": EPOCHS,
    "learning_rate": 1e-3,
    "precision": "fp32",
    "eval_rows": 4,
}


@pytest.fixture
def clone(finished, tmp_path):
    """The tiny experiment with a stage on a mixture, whose job notes the number of each training row that it takes."""
    clone = finished.copy(tmp_path / "clone")
    clone.monitoring(log_steps=1, save_steps=1)

    def mixed(config):
        config["tokens"]["mix"] = {"both": {"parts": PARTS}}
        stage = {"from": "base", "data": "both", "sequence_length": LENGTH, **STAGE}
        config["training"]["train"] = {"mixed": stage, **config["training"]["train"]}

    clone.experiment(mixed)
    note = 'Path("taken.txt").open("a").write(f"{Path(self.shards.tokens.filename).name} {index}\\n")\n        '
    clone.replace("scripts/training/engine/trainer.py", "filling = index", f"{note}filling = index")
    return clone


def rows_of(folder) -> list[bytes]:
    """The training rows of a folder of shards: tokens and flags."""
    shards = Shards(folder, "train")
    return [shards.tokens[row].tobytes() + shards.flags[row].tobytes() for row in range(len(shards))]


def test_a_stage_on_a_mixture_takes_the_shares_and_epochs_of_its_plan(clone):
    clone.snakemake(PLAN, MANIFEST)

    packed = {name: rows_of(clone.root / f"results/tokens/pack/{name}-{LENGTH}") for name in PARTS}
    mixed = rows_of(clone.root / f"results/tokens/mix/both-{LENGTH}")
    most = int(1.5 * len(packed["instruct"]) * 3)  # one and a half passes over the chats are a third of it
    assert len(mixed) == most > 3 * BATCH and most % BATCH

    lines = (clone.root / "taken.txt").read_text().splitlines()
    numbers = [int(line.split()[1]) for line in lines if line.startswith("train")]
    # the last step of an epoch has the rows that are left, and is filled up with rows without targets
    taken = Counter(mixed[number] for number in numbers if number < len(mixed))
    assert taken == Counter(mixed * EPOCHS)
    counts = {name: sum(taken[row] for row in set(rows)) for name, rows in packed.items()}
    assert counts["instruct"] / sum(counts.values()) == pytest.approx(1 / 3, abs=1 / len(mixed))
    plan = read_json(clone.root / PLAN)["parts"]
    for name, rows in packed.items():
        assert plan[name]["epochs"] == pytest.approx(counts[name] / len(rows), abs=1e-4)

    def more_chats(config):
        config["tokens"]["mix"]["both"]["parts"]["instruct"]["weight"] = 1.25

    clone.experiment(more_chats)
    assert clone.jobs(MANIFEST, PLAN) == {f"mix both {LENGTH}", "plan mixed", "train mixed"}
