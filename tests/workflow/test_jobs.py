"""A failed job: Snakemake knows it, and the user sees its log's path and last lines, the error line last and once."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.corpus.signatures import signatures
from scripts.experiment.layout import raw_name
from scripts.experiment.shards import source_shards
from tests.workflow.conftest import ODD

SPLIT = "results/corpus/split/manifest.json"
BETA = "results/corpus/filter/beta/manifest.json"


def errors(*texts: str) -> list[str]:
    return [line for text in texts for line in text.splitlines() if line.startswith("error: ")]


def test_no_part_of_a_sources_location_is_run_as_a_command(finished):
    assert ODD in (finished.root / "config/tiny.tsv").read_text()
    assert not list(finished.root.parent.rglob("ran"))


def test_a_script_that_fails_after_writing_its_outputs_is_a_failed_job(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    clone.replace("scripts/corpus/split.py", "\nimport ", "\nimport sys\nimport ")
    clone.replace("scripts/corpus/split.py", "    run(command(split))", "    run(command(split))\n    sys.exit(3)")
    done = clone.snakemake(SPLIT, "--retries", "0", check=False)
    assert done.returncode == 1
    assert "failed: split; log: results/logs/corpus/split.log" in done.stderr
    assert not (clone.root / SPLIT).exists()


def test_a_failed_fetch_ends_with_its_error_line_in_a_checkout_and_an_environment_with_odd_names(finished, tmp_path):
    clone = finished.copy(tmp_path / "my clone")
    (tmp_path / "bin $(touch planted) {of} 'mine'").symlink_to(sys.prefix)
    python = tmp_path / "bin $(touch planted) {of} 'mine'/bin/python"
    table = clone.root / "config/tiny.tsv"
    pin = re.search(r"beta\tpath\t[^\t]+\t(\w{64})", table.read_text())[1]
    table.write_text(table.read_text().replace(pin, "0" * 64))
    words = [python, "-m", "snakemake", BETA, "--profile", "local", "--configfile", "config/tiny.yaml"]
    done = subprocess.run(words, cwd=clone.root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    *lines, last = done.stderr.splitlines()
    assert last.startswith("error: source beta: ") and pin in last and "0" * 64 in last
    assert errors(done.stdout, done.stderr) == [last]
    name = raw_name("beta", "0" * 64)
    assert lines.count(f"failed: fetch {name}; log: logs/sources/fetch/{name}.log") == 1
    assert not [line for line in lines if line.startswith("trying again")]  # a wrong pin stays wrong
    assert "filesystem latency" not in done.stderr
    assert not list(tmp_path.rglob("planted")) and not Path("planted").exists()


def test_a_run_prints_a_line_per_finished_job_and_nothing_about_its_bookkeeping(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    done = clone.snakemake(BETA, "--forcerun", "filter")
    assert [re.sub(r"/.*|\d+:\d+:\d+\.\d+", "…", line) for line in done.stderr.splitlines()] == [
        "Using profiles local and workflow specific profile profiles…",
        "1 jobs: filter 1",
        "1 of 1 done: filter beta",
        "Complete log(s): …",
        "Elapsed time: …",
    ]
    assert re.fullmatch(r"\d\d:\d\d:\d\d filter beta: .*\n", done.stdout)


@pytest.mark.soak
def test_deduplicate_and_gate_run_with_ten_thousand_sources(finished, tmp_path):
    """Their names and rows are longer than Linux lets any argument be; other rules would only take time here."""
    clone = finished.copy(tmp_path / "clone")
    names = [f"a-repository-with-a-long-name-{number:05d}" for number in range(9_998)]
    table = clone.root / "config/tiny.tsv"
    rows = (f"{name}\tpath\t/not/there/{name}\t{'0' * 64}\tpython\tmedium\tMIT\n" for name in names)
    table.write_text(table.read_text() + "".join(rows))
    empty = clone.root / "results/corpus/filter" / names[0]
    write_jsonl(empty / "documents.jsonl.zst", [])
    write_jsonl(empty / "rejects.jsonl.zst", [])
    facts = {"seen": 0, "kept": 0, "dropped": {}, "languages": {}}
    write_manifest(empty, ["documents.jsonl.zst", "rejects.jsonl.zst"], **facts)
    raw = clone.root / "data/raw"
    manifest = {"sha256": "0", "kind": "path", "pin": "0" * 64}
    (raw / f"{raw_name(names[0], '0' * 64)}.json").write_text(json.dumps(manifest))
    for name in names[1:]:
        (empty.parent / name).mkdir()
        for file in empty.iterdir():
            os.link(file, empty.parent / name / file.name)
        os.link(raw / f"{raw_name(names[0], '0' * 64)}.json", raw / f"{raw_name(name, '0' * 64)}.json")
    filtered, shards = empty.parent, source_shards([*names, "alpha", "beta"])
    assert len(shards) == 256
    for shard, members in shards.items():
        signatures(filtered, members, filtered.parent / "signatures" / shard)
        write_manifest(filtered / f"_{shard}", [])
        write_manifest(clone.root / f"results/sources/fetch/_{shard}", [])
    # what lies there was not made by the workflow, which rule gate would refuse
    clone.replace("rules/evaluation.smk", " --by-workflow", "")
    for path in (clone.root / "results").rglob("*.provenance.json"):
        path.unlink()
    rules = ("deduplicate", "gate")
    done = clone.snakemake("results/evaluation/gate/eval.json", "--allowed-rules", *rules)
    assert "2 of 2 done: gate" in done.stderr
    inputs = json.loads((clone.root / "results/evaluation/gate/eval.json").read_text())["inputs"]
    assert len(inputs["sources"]) == 10_000
    assert json.loads((clone.root / "results/corpus/deduplicate/manifest.json").read_text())["kept"] > 0


def test_a_benchmarks_file_name_is_never_run_by_the_shell(finished, tmp_path):
    """A name that the shell would change is refused; one with a harmless sign goes through a real job unchanged."""
    clone, repository = finished.copy(tmp_path / "clone"), tmp_path / "repository $(touch planted)"
    repository.mkdir()
    (repository / "it's; $(touch planted)").mkdir()
    file = repository / "it's; $(touch planted)" / "Humane-Val_2+.jsonl"
    problem = {
        "task_id": "HumanEval/0",
        "prompt": "def one():\n",
        "entry_point": "one",
        "canonical_solution": "    return 1\n",
    }
    file.write_text(json.dumps({**problem, "test": "def check(candidate):\n    assert candidate() == 1\n"}) + "\n")
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["init", "--quiet"], ["add", "--all"], [*who, "commit", "--quiet", "--message", "all"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    pin = {"git": str(repository), "commit": commit.stdout.strip()}

    def benchmark(path: str):
        return lambda config: config["evaluation"].update(code={"benchmarks": [{**pin, "path": path}]})

    for name in (
        "a;b.jsonl",
        "$(touch planted).jsonl",
        "it's.jsonl",
        'a"b.jsonl',
        "a\nb.jsonl",
        "-rf.jsonl",
        "a b.jsonl",
    ):
        clone.experiment(benchmark(f"data/{name}"))
        done = clone.snakemake("-n", check=False)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert "evaluation.code.benchmarks.0.path: " in errors(done.stderr)[0], done.stderr
    clone.experiment(benchmark(str(file.relative_to(repository))))
    target = "results/evaluation/problems/Humane-Val_2+.jsonl"
    clone.snakemake("-n", "-p", target)
    clone.snakemake(target)
    assert (clone.root / target).read_bytes() == file.read_bytes()
    assert not list(tmp_path.rglob("planted")) and not Path("planted").exists()


def test_a_deleted_file_of_the_data_path_is_made_again_and_nothing_is_trained(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    test = clone.root / "results/corpus/compose/instruct/test.jsonl.zst"
    shard = clone.root / "results/tokens/pack/code-128/train.tokens.bin"
    before = {path: path.read_bytes() for path in (test, shard)}
    for target in ("data", "results/eval.json"):
        for path in before:
            path.unlink()
        dry = clone.snakemake("-n", target)
        assert (
            "missing: results/corpus/compose/instruct/test.jsonl.zst and 1 more; a run makes them again" in dry.stderr
        )
        done = clone.snakemake(target)
        assert "done: compose instruct" in done.stderr and "train" not in done.stderr
        assert {path: path.read_bytes() for path in before} == before
        assert "Nothing to be done" in done.stderr  # of what follows


def test_a_lost_file_is_named_after_the_experiment_was_edited_too_unless_nothing_uses_it(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    (clone.root / "results/tokens/pack/code-128/train.tokens.bin").unlink()
    clone.experiment(lambda config: config["evaluation"]["keywords"].update(max_new_tokens=5))
    assert "missing: results/tokens/pack/code-128/train.tokens.bin; a run" in clone.snakemake("-n").stderr
    clone.experiment(lambda config: config["training"]["train"]["pretrain"].update(sequence_length=64))
    assert "missing: " not in clone.snakemake("-n").stderr
    (clone.root / "results/training/train/sft/model.safetensors").unlink()
    assert "missing: " not in clone.snakemake("-n").stderr
