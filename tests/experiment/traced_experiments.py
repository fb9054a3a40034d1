"""The experiments that tests/experiment/proof.py runs under a trace. Between them every rule runs.

    run_experiment("rest", clone, trace)     # a line per function that a rule's jobs executed, in the folder `trace`

`tiny` is the tests' experiment with the suites that need nothing else. `rest` has what it lacks: repositories of git
split by time, a mixture, a pinned benchmark, functions judged by a source's own tests, tasks of lm-eval.
`shards` is the data of `rest`, made in shards and copied to Parquet. `pull` are the tests of rule `pull`; any other
name is the default or a smoke size.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from copy import deepcopy
from pathlib import Path

import yaml

from tests import forked
from tests.judge.repositories import shapes_repository
from tests.workflow.conftest import EXPERIMENT, STAGE, row

ROOT = Path(__file__).parents[2]
# Without compiling, so that numba's functions are seen as well. A program is forked only where forked.ENVIRONMENT has
# the same, and else started.
TRACED = {"PYTHONPATH": str(ROOT / "tests/trace"), "NUMBA_DISABLE_JIT": "1"}
TABLE = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
PROBLEM = {
    "task_id": "HumanEval/0",
    "prompt": 'def add(a, b):\n    """Return the sum."""\n',
    "canonical_solution": "    return a + b\n",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "entry_point": "add",
}
SMALL = {"alpha": "json", "beta": "importlib"}  # packages of the standard library by source


def traced(folder: Path) -> dict[str, str]:
    """The environment for a command whose rules' jobs are traced into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return os.environ | TRACED | {"TRACE": str(folder)}


def smoke_sizes() -> list[str]:
    return sorted(path.stem for path in (ROOT / "config/smoke").glob("*.yaml"))


def run_experiment(name: str, clone: Path, folder: Path) -> None:
    """Run an experiment by its own command in a clone, traced; a failed run is an error."""
    environment = traced(folder)
    programs = [Path(forked.python()).parent, Path(sys.executable).parent]
    snakemake = ["snakemake", "--profile", "local"]
    if name == "tiny":
        write_tiny(clone)
        words = [*snakemake, "results/tiny/eval.json", "results/tiny/training/plan/sft.json"]
        words += ["--configfile", "config/tiny.yaml"]
    elif name == "rest":
        write_rest(clone)
        words = [*snakemake, "results/rest/eval.json", "--configfile", "config/rest.yaml"]
    elif name == "shards":
        write_shards(clone)
        words = [*snakemake, "data", "--configfile", "config/shards.yaml"]
    elif name == "default":
        del environment["NUMBA_DISABLE_JIT"]  # its hours would be days
        words = [*snakemake, "results/eval.json"]
    elif name == "pull":
        words = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        words += ["tests/workflow/dvc/test_raw_archives.py", "tests/sources/test_pull.py"]
    else:
        words = ["make", "--no-print-directory", "--old-file", "env", "smoke", f"EXPERIMENT={name}"]
    environment["PATH"] = ":".join([*map(str, programs), environment["PATH"]])
    subprocess.run(words, cwd=clone, env=environment, check=True)


def write(path: Path, value: object) -> str:
    """Write YAML, or JSON lines where the file is named so; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in value) if path.suffix == ".jsonl" else yaml.safe_dump(value)
    path.write_text(lines)
    return str(path)


def library(package: str, folder: Path) -> None:
    """A copy of a package of the standard library."""
    source = Path(sysconfig.get_paths()["stdlib"], package)
    shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns("__pycache__"))


def write_tiny(clone: Path) -> None:
    """The tests' tiny experiment with every suite that needs neither a GPU nor other sources."""
    config = deepcopy(EXPERIMENT) | {"results": "results/tiny"}
    config["training"]["train"]["sft"] |= {"eval_steps": 1, "early_stopping": {"patience": 1}}
    config["evaluation"] |= {
        "qa": {"max_new_tokens": 4},
        "bleu": {"documents": 1, "max_new_tokens": 4},
        "human": {"of": "keywords"},
        "completion": {"sizes": ["line"], "tasks": 1, "prompt_characters": 200, "max_new_tokens": 4},
        "code": {"benchmarks": [{"path": "config/problems.jsonl"}], "max_new_tokens": 4},
        "latency": {"device": "cpu", "prompt_tokens": 4, "new_tokens": 4},
    }
    write(clone / "config/tiny.yaml", config)
    write(clone / "config/problems.jsonl", [PROBLEM])
    table = TABLE
    for source, package in SMALL.items():
        library(package, clone / "sources" / source)
        table += row(source, clone / "sources" / source)
    (clone / "config/tiny.tsv").write_text(table)


def commit(folder: Path, day: str) -> str:
    """Make a folder a repository with one commit of a day; returns its hash."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    environment = os.environ | {f"GIT_{name}_DATE": f"{day}T12:00:00Z" for name in ("AUTHOR", "COMMITTER")}
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", day]):
        subprocess.run(["git", *identity, *words], cwd=folder, env=environment, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    return head.stdout.strip()


def lm_eval_task(folder: Path) -> None:
    """A task of lm-eval with its data."""
    items = [{"question": f"What is {number}?", "choices": ["odd", "even"], "answer": number % 2} for number in (2, 3)]
    task = {
        "task": "parity",
        "output_type": "multiple_choice",
        "doc_to_text": "Q: {{question}}\nA:",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "answer",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": write(folder / "parity.jsonl", items)}},
        "test_split": "test",
    }
    write(folder / "parity.yaml", task)


def write_rest(clone: Path) -> None:
    """An experiment of the rules that `tiny` does not have."""
    table, sources = TABLE, clone / "repositories"
    for source, package in SMALL.items():
        library(package, sources / source)
    for path, text in shapes_repository.FILES.items():
        (sources / "shapes" / path).parent.mkdir(parents=True, exist_ok=True)
        (sources / "shapes" / path).write_text(text)
    for source, day in {"alpha": "2024-05-01", "beta": "2024-05-01", "shapes": "2025-05-01"}.items():
        pin = commit(sources / source, day)
        table += f"{source}\tgit\t{sources / source}\t{pin}\tpython\thigh\tPSF-2.0\n"
    (clone / "config/rest.tsv").write_text(table)
    write(sources / "benchmark/problems.jsonl", [PROBLEM])
    benchmark = {"git": str(sources / "benchmark"), "commit": commit(sources / "benchmark", "2024-05-01")}
    lm_eval_task(clone / "config/tasks")

    config = deepcopy(EXPERIMENT) | {"experiment": "rest", "results": "results/rest"}
    config["sources"] = "config/rest.tsv"
    config["corpus"]["split"] = {"by": "time", "after": "2025-01-01", "validation": 0.1}
    parts = {"code": {"weight": 3}, "instruct": {"weight": 1, "max_epochs": 2}}
    config["tokens"]["mix"] = {"both": {"parts": parts}}
    stage = {"from": "base", "data": "both", "sequence_length": 1024, **STAGE, "global_batch": 2, "steps": 2}
    config["training"]["train"] = {"sft": stage}
    config["evaluation"] = {
        "perplexity": {"documents": 2, "context": 256, "stride": 128},
        "code": {"benchmarks": [{"path": "problems.jsonl", **benchmark}], "max_new_tokens": 4},
        "repository_tests": {"sources": ["shapes"], "tasks": 1, "max_new_tokens": 4},
        "lm_eval": {"tasks": ["parity"], "include_path": "config/tasks"},
    }
    write(clone / "config/rest.yaml", config)


def write_shards(clone: Path) -> None:
    """The data of `rest`: sources in shards, however few they are, and tables in Parquet."""
    write_rest(clone)
    path = clone / "scripts/experiment/source_shards.py"
    path.write_text(path.read_text().replace("ONE_BY_ONE = 512", "ONE_BY_ONE = 1"))
    config = yaml.safe_load((clone / "config/rest.yaml").read_text())
    kept = {key: config[key] for key in ("sources", "corpus")}
    settings = {"experiment": "shards", "results": "results/shards", "tokens": EXPERIMENT["tokens"]}
    write(clone / "config/shards.yaml", kept | settings)
