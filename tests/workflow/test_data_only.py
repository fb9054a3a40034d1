"""An experiment without `training`: documents and shards are made, and no setting or job of training is needed."""

import yaml

from scripts.common.files import read_json


def without_nulls(row):
    return {name: value for name, value in row.items() if value is not None}


def without_training(clone, **tokens):
    def edit(config):
        del config["training"]
        config["tokens"] |= tokens

    clone.experiment(edit)


def test_without_training_documents_and_shards_are_made_and_nothing_else(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    mixture = {"parts": {"code": {"weight": 3, "max_epochs": 0.5}, "instruct": {"weight": 1, "max_epochs": 4}}}
    without_training(clone, sequence_lengths=[1024], mix={"both": mixture})
    done = clone.snakemake("data")  # evaluation is still in the file
    assert "note: `evaluation` is not used: without `training`" in done.stderr
    for name in ("code", "instruct"):
        manifest = read_json(clone.root / f"results/tokens/pack/{name}-1024/manifest.json")
        assert manifest["length"] == 1024 and manifest["splits"]["train"]["rows"]
    mixed = read_json(clone.root / "results/tokens/mix/both-1024/manifest.json")["splits"]["train"]
    assert mixed["rows"] == sum(part["rows"] for part in mixed["parts"].values())
    assert "| alpha | " in (clone.root / "results/report/cards/instruct.md").read_text()
    assert clone.jobs("data") == clone.jobs("all") == set()
    clone.experiment(lambda config: config.update(results="results/new"))
    rules = {"filter", "signatures", "deduplicate", "split", "compose", "tokenizer", "pack"}
    assert {job.split()[0] for job in clone.jobs("data")} == rules | {"mix", "cards", "data"}

    done = clone.snakemake("-n", "results/new/eval.json", check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].endswith("without `training` all there is to make is `data`")


def test_the_tokenizer_of_a_folder_is_used_at_any_path_and_no_weights_are_needed(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    folder = tmp_path / "tokenizer"
    (clone.root / "results/tokens/tokenizer").rename(folder)
    own = {"tokenizer": {"folder": str(folder)}}
    without_training(clone, **own, sequence_lengths=[1024])
    config = {"experiment": "x", "extends": "config/tiny.yaml", "results": "results/own", "evaluation": None}
    path = clone.root / "config/own.yaml"
    path.write_text(yaml.safe_dump(config))
    clone.snakemake("results/own/tokens/tokenizer/manifest.json", "--configfile", "config/own.yaml", "--nolock")
    made = clone.root / "results/own/tokens/tokenizer"
    assert (made / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()

    folder.rename(tmp_path / "elsewhere")
    path.write_text(yaml.safe_dump(config | {"tokens": {"tokenizer": {"folder": str(tmp_path / "elsewhere")}}}))
    assert "tokenizer" not in clone.jobs("data", "--configfile", "config/own.yaml")

    (tmp_path / "elsewhere/tokenizer.json").unlink()
    done = clone.snakemake("-n", "data", "--configfile", "config/own.yaml", check=False)
    assert done.returncode == 1 and "tokens.tokenizer.folder: no file " in done.stderr.splitlines()[-1]
