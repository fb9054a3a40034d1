"""scripts/tokens/mix.py: rows by weight against closed forms, each one a row of its part, whatever interrupts it."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.options import given
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.experiment.settings.training import Mixture, Part
from scripts.tokens import mix as module
from scripts.tokens.mix import mix
from scripts.tokens.pack import pack
from scripts.tokens.packing.mixing import mixture_rows
from scripts.tokens.packing.shards import Shards
from scripts.training.planning.plan_stage import PlanInputs, part_plans


@pytest.fixture(scope="module")
def packed(tokenizer, tmp_path_factory):
    """Folders of packed rows by name: `chats` with 24 training rows or so, `general` with more."""
    root = tmp_path_factory.mktemp("packed")

    def made(name: str, train: list[dict], validation: list[dict], length: int = 64) -> Path:
        folder = root / "compose" / name
        for split, examples in (("train", train), ("validation", validation)):
            write_jsonl(folder / f"{split}.jsonl.zst", examples)
        write_manifest(folder, ["train.jsonl.zst", "validation.jsonl.zst"])
        pack(folder, tokenizer, length, root / f"{name}-{length}")
        return root / f"{name}-{length}"

    def chat(number: int) -> dict:
        turns = [{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": f"It is {number}."}]
        return {"id": f"chat {number}", "messages": turns}

    def text(number: int) -> dict:
        return {
            "id": f"text {number}",
            "text": "".join(f"x{number} = {line * number}\n" for line in range(number % 40)),
        }

    folders = {
        "chats": made("chats", [chat(number) for number in range(40)], [chat(99)]),
        "general": made(
            "general", [text(number) for number in range(200)], [text(number) for number in range(300, 360)]
        ),
        "silent": made("silent", [text(number) for number in range(9)], []),
    }
    folders["other"] = made("other", [text(1)], [], 32)
    return folders


def settings(total: float | None = None, **parts) -> Mixture:
    return Mixture(parts={name: Part(**part) for name, part in parts.items()}, million_tokens=total)


def test_the_largest_mixture_and_each_share_are_the_closed_form():
    """Of all mixtures, tried one by one, the largest that passes over no part more often than it may."""
    random = np.random.default_rng(5)
    for _ in range(300):
        names = "abcd"[: random.integers(1, 5)]
        parts = {
            name: Part(weight=int(random.integers(1, 9)), max_epochs=float(random.choice([1, 2, 3.5])))
            for name in names
        }
        rows = {name: int(random.integers(40, 90)) for name in names}
        weights = sum(int(part.weight) for part in parts.values())
        counts = mixture_rows(parts, rows)
        total = sum(counts.values())

        def allowed(total, parts=parts, rows=rows, weights=weights):
            return all(
                Fraction(int(part.weight), weights) * total <= Fraction(part.max_epochs) * rows[name]
                for name, part in parts.items()
            )

        assert allowed(total) and not allowed(total + 1)
        for name, part in parts.items():
            assert abs(counts[name] - total * int(part.weight) / weights) < 1


def test_a_mixture_holds_rows_of_its_parts_as_they_are_and_says_tokens_and_epochs_of_each(packed, tmp_path):
    folders = {name: packed[name] for name in ("chats", "general")}
    mixture = settings(chats={"weight": 3, "max_epochs": 2.5}, general={"weight": 1})
    out = tmp_path / "both-64"
    manifest = mix(folders, mixture, out)
    assert manifest == read_manifest(out) and manifest["length"] == 64
    counts, mixed = manifest["splits"]["train"], Shards(out, "train")
    available = {name: len(Shards(folder, "train")) for name, folder in folders.items()}
    total = int(2.5 * available["chats"] / 0.75)
    assert counts["rows"] == len(mixed) == total
    assert counts["parts"]["chats"]["epochs"] == pytest.approx(2.5, abs=1 / available["chats"])

    rows = {name: [] for name in folders}
    for name, folder in folders.items():
        shards = Shards(folder, "train")
        contents = {
            shards.tokens[row].tobytes() + shards.flags[row].tobytes(): (row, shards.documents(row))
            for row in range(len(shards))
        }
        for row in range(len(mixed)):
            if match := contents.get(mixed.tokens[row].tobytes() + mixed.flags[row].tobytes()):
                rows[name].append(match[0])
                assert mixed.documents(row) == match[1]
        used = np.bincount(rows[name], minlength=len(shards))
        assert set(used) <= {int(counts["parts"][name]["epochs"]), int(counts["parts"][name]["epochs"]) + 1}
        tokens = np.bincount(shards.pieces[:, 0], weights=shards.pieces[:, 2], minlength=len(shards))
        assert counts["parts"][name]["tokens"] == int((tokens * used).sum())
        assert counts["parts"][name]["rows"] == len(rows[name])
    assert sum(map(len, rows.values())) == total and counts["padding"] == total * 64 - counts["tokens"]
    assert counts["tokens"] == int(mixed.pieces[:, 2].sum()) and counts["documents"] == len(set(mixed.names))
    assert counts["targets"] == int(np.count_nonzero(np.asarray(mixed.flags) & 2))
    # chats stand between texts
    assert np.corrcoef(np.arange(total), [mixed.documents(row)[0][0] == "c" for row in range(total)])[0, 1] < 0.4


def test_the_same_parts_and_settings_give_the_same_bytes_and_other_ones_others(packed, tmp_path):
    folders = {name: packed[name] for name in ("chats", "general")}
    even = settings(chats={"weight": 1}, general={"weight": 1})
    first, second = mix(folders, even, tmp_path / "a-64"), mix(folders, even, tmp_path / "b-64")
    uneven = mix(folders, settings(chats={"weight": 1}, general={"weight": 2}), tmp_path / "c-64")
    assert first == second and first["files"]["train.tokens.bin"] != uneven["files"]["train.tokens.bin"]


def test_a_size_in_tokens_is_kept_and_a_part_without_validation_rows_is_left_out_of_validation(packed, tmp_path):
    folders = {name: packed[name] for name in ("general", "silent")}
    manifest = mix(folders, settings(0.00064, general={"weight": 4}, silent={"weight": 1}), tmp_path / "m-64")
    assert manifest["splits"]["train"]["rows"] == 10
    assert {name: part["rows"] for name, part in manifest["splits"]["train"]["parts"].items()} == {
        "general": 8,
        "silent": 2,
    }
    validation = manifest["splits"]["validation"]
    assert validation["parts"]["silent"]["rows"] == 0 and validation["parts"]["general"]["epochs"] == 1
    silent = mix({"silent": packed["silent"]}, settings(silent={"weight": 1}), tmp_path / "s-64")
    assert silent["splits"]["validation"]["rows"] == 0 and len(Shards(tmp_path / "s-64", "validation")) == 0


@pytest.mark.parametrize(
    ("names", "parts", "total", "line"),
    [
        (["chats", "general"], {"chats": {"weight": 1}, "general": {"weight": 1}}, 1, "allow a mixture of "),
        (
            ["general", "other"],
            {"general": {"weight": 1}, "other": {"weight": 1}},
            None,
            "`length` is not the same as in",
        ),
        (
            ["chats", "general"],
            {"chats": {"weight": 1e-6}, "general": {"weight": 1}},
            None,
            "is less than one; raise it",
        ),
    ],
)
def test_mixtures_that_cannot_be_made_are_one_line_errors_and_leave_no_manifest(
    packed, tmp_path, names, parts, total, line
):
    with pytest.raises(UserError) as error:
        mix({name: packed[name] for name in names}, settings(total, **parts), tmp_path / "m-64")
    assert line in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "m-64/manifest.json").exists()


def test_an_interrupted_mixture_leaves_no_manifest_and_a_second_call_makes_it_whole(packed, tmp_path, monkeypatch):
    folders = {name: packed[name] for name in ("chats", "general")}
    even = settings(chats={"weight": 1}, general={"weight": 1})

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_pieces", stopped)
        with pytest.raises(KeyboardInterrupt):
            mix(folders, even, tmp_path / "m-64")
    assert not (tmp_path / "m-64/manifest.json").exists() and not list((tmp_path / "m-64").glob(".*"))
    assert mix(folders, even, tmp_path / "m-64") == mix(folders, even, tmp_path / "n-64")


def test_the_command_accepts_the_arguments_of_the_rule(packed, tmp_path, monkeypatch):
    even = json.dumps({"parts": {"chats": {"weight": 1}, "general": {"weight": 1}}})
    words = ["mix", "--settings", even, "--out", str(tmp_path / "m-64"), "--parts", str(packed["general"])]
    monkeypatch.setattr("sys.argv", [*words, str(packed["chats"])])
    module.mix_parts(**given(module.mix_parts))
    assert read_json(tmp_path / "m-64/manifest.json")["splits"]["train"]["parts"].keys() == {"chats", "general"}
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(UserError, match="--parts: chats: must be the parts of --settings"):
        module.mix_parts(**given(module.mix_parts))


def test_the_plan_says_tokens_and_epochs_of_each_part_over_all_steps():
    """100 rows a pass of 13 steps, the last of 4 rows; 50 steps of 8: 3 passes and 11 steps, so 388 rows."""
    train = {
        "rows": 100,
        "parts": {"a": {"rows": 75, "tokens": 7000, "epochs": 2.5}, "b": {"rows": 25, "tokens": 100, "epochs": 0.1}},
    }
    experiment = load_experiment(read_yaml(Path("config/examples/from-scratch.yaml")))
    stage = experiment.stages["sft"].model_copy(update={"steps": 50, "global_batch_size": 8})
    inputs = PlanInputs("sft", stage, load_machine(Path("config/machines/local.yaml")), rows=100)
    assert part_plans(train, inputs) == {
        "parts": {"a": {"tokens": 27160, "epochs": 9.7}, "b": {"tokens": 388, "epochs": 0.388}}
    }
    assert part_plans({"rows": 100}, inputs) == {}
    alone = inputs._replace(settings=stage.model_copy(update={"packing": False}))  # each of 200 pieces in a row
    assert part_plans(train | {"rows": 50, "pieces": 200}, alone)["parts"]["b"] == {"tokens": 200, "epochs": 0.2}
