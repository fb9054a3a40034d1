"""A clone of this repository with a tiny experiment on real code, run once to its end; each test gets a copy."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from scripts.experiment.layout import architecture_file
from scripts.sources.archives.canonical_archive import pack_folder
from scripts.sources.archives.members import Limits
from tests import forked
from tests.workflow.slurm import Slurm, missing

ROOT = Path(__file__).parents[2]
ARCHITECTURES = architecture_file("").parent
DATA = "results/corpus/deduplicate/manifest.json"
# packages of the standard library: real code, and there on every machine
PACKAGES = {
    "alpha": ["asyncio", "email", "json", "http"],
    "beta": ["unittest", "xml", "importlib", "logging"],
    "gamma": ["concurrent", "ctypes"],
}
# the folder of the sources: what a shell, Snakemake or a program would run or read as an option
ODD = "; touch ran; $(touch ran) `touch ran` 'one' \"two\" {wildcards} && --x *"
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
STAGE = {
    "global_batch_size": 8,
    "steps": 3,
    "learning_rate": 1e-3,
    "precision": "fp32",
    "eval_rows": 4,
}
EXPERIMENT = {
    "experiment": "tiny",
    "sources": "config/tiny.tsv",
    "corpus": {
        "split": {"validation": 0.1, "test": 0.1},
        "compose": {
            "code": {"kind": "code"},
            "instruct": {"kind": "instruct", "language": "en", "tasks": {"analysis": 1}, "max_characters": 2000},
        },
    },
    "tokens": {"tokenizer": {"vocab_size": 600}},
    "training": {
        "base": {"model": "scratch", "shape": {**SHAPE, "max_position_embeddings": 4096, "tie_word_embeddings": True}},
        "train": {
            "pretrain": {"from": "base", "data": "code", "sequence_length": 128, **STAGE},
            "sft": {"from": "pretrain", "data": "instruct", "sequence_length": 1024, **STAGE},
        },
    },
    "evaluation": {
        "perplexity": {"documents": 6, "context": 256, "stride": 128},
        "keywords": {"max_new_tokens": 4},
        "gate": {
            "gates": [
                {
                    "name": "learns",
                    "dataset": "code",
                    "model": "pretrain",
                    "against": "base",
                    "metric": "bits_per_byte",
                    "below": 0,
                }
            ],
        },
    },
}


class Clone:
    """A checkout in which the workflow can be run; Snakemake and its jobs are forks, if not `real`: tests/forked.py."""

    real = False

    def __init__(self, root: Path):
        self.root = root

    def command(self, *words: str) -> list[str]:
        """The command line of Snakemake; profile local and the tiny experiment, if not told otherwise."""
        profile = [] if "--profile" in words else ["--profile", "local"]
        configfile = [] if "--configfile" in words else ["--configfile", "config/tiny.yaml"]
        python = sys.executable if self.real else forked.python()
        return [python, "-m", "snakemake", *words, *profile, *configfile]

    def snakemake(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        done = subprocess.run(self.command(*words), cwd=self.root, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(words)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
        return done

    def jobs(self, *words: str) -> set[str]:
        """What `-n` would run: the rule, with its wildcards where it has any, as `train sft`."""
        done = self.snakemake("-n", *(words or ("results/eval.json",)))
        text = done.stdout + done.stderr
        rules = re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)*)", text, re.MULTILINE)
        return {
            " ".join(
                [
                    rule,
                    # of a raw archive the source's name alone, without the pin
                    *re.findall(
                        r"=([^,\n]+?)(?:-[0-9a-f]{12})?(?=,|$)",
                        (re.findall(r"^    wildcards: (.*)$", body, re.MULTILINE) or [""])[0],
                    ),
                ]
            )
            for rule, body in rules
        }

    def monitoring(self, **settings) -> None:
        """Write the experiment's monitoring file."""
        (self.root / "config/monitoring/default.yaml").write_text(yaml.safe_dump(settings))

    def experiment(self, edit=None) -> dict:
        """Read the tiny experiment; write it back after `edit(config)`."""
        path = self.root / "config/tiny.yaml"
        config = yaml.safe_load(path.read_text())
        if edit:
            edit(config)
            path.write_text(yaml.safe_dump(config))
        return config

    def replace(self, file: str, old: str, new: str) -> None:
        path = self.root / file
        text = path.read_text()
        assert text.count(old) >= 1, f"{old!r} is not in {file}"
        path.write_text(text.replace(old, new, 1))

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        done = subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self) -> str:
        """Commit all that is there, in a repository that the first call makes; the commit."""
        self.git("init", "--quiet")  # of a repository that is there it changes nothing
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "all")
        return self.git("rev-parse", "HEAD")

    def copy(self, to: Path) -> "Clone":
        subprocess.run(["cp", "-a", self.root, to], check=True)
        return Clone(to)


def processes_of(clone: Clone, **environment: str) -> list[psutil.Process]:
    """The processes that work in a clone and have these variables."""
    matching = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            has = process.environ()
            if process.cwd() == str(clone.root) and all(has.get(name) == value for name, value in environment.items()):
                matching.append(process)
    return matching


def source(name: str, folder: Path) -> Path:
    """A folder of real code for the source `name`."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for package in PACKAGES[name]:
        shutil.copytree(library / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "test*"))
    return folder


def row(name: str, folder: Path) -> str:
    """The line of a sources table for a folder, with the pin that the product's own fetch reports."""
    pin = pack_folder(folder, None, Limits())["sha256"]
    return f"{name}\tpath\t{folder}\t{pin}\tpython\thigh\tPSF-2.0\n"


def checkout(root: Path) -> Clone:
    """A clone of this repository as it lies here, committed or not, less what git ignores; and what Python and numba
    have compiled of it here, which takes half a minute in each clone."""
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in files.stdout.splitlines():
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
    for compiled in ROOT.glob("scripts/**/__pycache__/*"):
        if compiled.suffix in (".pyc", ".nbi", ".nbc"):  # no file that another worker is writing, which may be gone
            copy = root / compiled.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(compiled, copy)
    tried = ROOT / ARCHITECTURES  # the trials of kernels, each once for all clones
    tried.mkdir(parents=True, exist_ok=True)
    (root / ARCHITECTURES).parent.mkdir(parents=True, exist_ok=True)
    (root / ARCHITECTURES).symlink_to(tried)
    return Clone(root)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Clone:
    """A clone whose tiny experiment has run to its end, one for all workers. Do not change it: copy it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    root = folder / "finished/stagecraft"
    with (folder / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (root / "results/eval.json").is_file():  # by another worker
            return Clone(root)
        clone = checkout(root)
        (root / "config/tiny.yaml").write_text(yaml.safe_dump(EXPERIMENT))
        clone.monitoring(log_steps=1, save_steps=2)
        table = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
        for name in ("alpha", "beta"):
            table += row(name, source(name, root.parent / ODD / name))
        (root / "config/tiny.tsv").write_text(table)
        trace = root.parent / "trace"  # which functions each rule executes, for test_executed.py
        trace.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRACE", str(trace))
            clone.snakemake("results/eval.json")
        return clone


@pytest.fixture(scope="module")
def sharded(finished, tmp_path_factory):
    """The finished experiment, its data made once more in shards. Do not change it: copy it."""
    clone = finished.copy(tmp_path_factory.mktemp("many") / "clone")
    clone.replace("scripts/experiment/shards.py", "ONE_BY_ONE = 512", "ONE_BY_ONE = 1")
    shutil.rmtree(clone.root / "results/corpus")
    shutil.rmtree(clone.root / "data/raw")
    clone.snakemake(DATA)
    return clone


@pytest.fixture
def real(monkeypatch) -> None:
    """Snakemake and its jobs are started, not forked."""
    monkeypatch.setattr(Clone, "real", True)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen]]:
    """Start Snakemake in a clone without waiting for it; its output goes to the clone's snakemake.out.

    It is a real start; with `python=forked.python()` Snakemake and its jobs are forks.
    """
    running = []

    def begin(clone: Clone, *words: str, python: str = sys.executable) -> subprocess.Popen:
        line = [python, *clone.command(*words)[1:]]
        with (clone.root / "snakemake.out").open("a") as out:
            running.append(subprocess.Popen(line, cwd=clone.root, stdout=out, stderr=out, start_new_session=True))
        return running[-1]

    yield begin
    for process in running:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def slurm(tmp_path_factory) -> Iterator[Slurm]:
    """A real Slurm of two nodes with two GPUs each."""
    if line := missing():
        pytest.skip(line)
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
