"""Reruns after 30 edits of one small pipeline: Snakemake, DVC and our fingerprints.

    python -m benchmarks.bench_reruns               # the table of benchmarks/README.md, in about 20 minutes
    python -m benchmarks.bench_reruns --only stagecraft

Each tool runs the pipeline (benchmarks/reruns/project.py) once; each edit then gets a copy of that, with the
tool's records, and the tool's own command. The truth is a run of the edited programs from scratch, without any tool. A
rerun is missed where a step's result afterwards is not that of the run from scratch. It is needless where a step ran
that the edit does not concern and whose result from scratch is the same as before.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import dvc.cli
import dvc.commands.init
import dvc.commands.repro
import snakemake.api
import snakemake.cli
import snakemake.dag
import snakemake.persistence.file
import yaml

from benchmarks.figures import Value, store
from benchmarks.reruns.edits import EDITS
from benchmarks.reruns.project import INPUTS, STEPS, TOOLS, by_shell

MAIN = {"snakemake": snakemake.cli.main, "dvc": dvc.cli.main}
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": ".",
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}


def results(folder: Path) -> dict[str, bytes]:
    return {step: (folder / f"results/{step}.txt").read_bytes() for step in STEPS}


def call(words: list[str], folder: Path) -> None:
    """Run a command in a folder; `snakemake` and `dvc` in a fork of this process, which has imported them."""
    if words[0] not in MAIN:
        subprocess.run(words, cwd=folder, env=ENVIRONMENT, check=True)
        return
    if not (child := os.fork()):
        os.chdir(folder)
        os.environ.update(ENVIRONMENT)
        log = os.open("tool.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.dup2(log, 1), os.dup2(log, 2)
        for name in [name for name in sys.modules if name.partition(".")[0] == "scripts"]:
            del sys.modules[name]  # the small project has a package of this name
        sys.argv = words
        try:
            code = MAIN[words[0]](words[1:])
        except SystemExit as end:
            code = end.code or 0
        os._exit(code if isinstance(code, int) else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"{words} in {folder}: {(folder / 'tool.log').read_text()}"


def from_scratch(folder: Path) -> dict[str, bytes]:
    """The results of the programs as they are, each run by hand."""
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "results").mkdir(exist_ok=True)
    for step in STEPS:
        options = [word for key, value in settings[step].items() for word in (f"--{key}", str(value))]
        inputs = [INPUTS[step]] if step != "filter" else sorted(map(str, folder.glob("repositories/*.txt")))
        call([sys.executable, "-m", f"scripts.steps.{step}", "--out", f"results/{step}.txt", *options, *inputs], folder)
    return results(folder)


def truth(work: Path) -> dict[str, dict[str, bytes]]:
    """Edit → the results from scratch after it."""
    jobs_of_edit = {}
    for number, (name, edit) in enumerate(EDITS.items()):
        by_shell(folder := work / f"truth-{number}")
        jobs_of_edit[name] = from_scratch(edit.apply(folder) or folder)
    return jobs_of_edit


def outcomes(tool: str, work: Path, right: dict[str, dict[str, bytes]]) -> dict[str, tuple[set[str], set[str]]]:
    """Edit → (missed steps, needless steps) of a tool."""
    make, command = TOOLS[tool]
    make(original := work / "original")
    if command[0] == "dvc":
        call(["dvc", "init", "--no-scm", "--quiet"], original)
    call(command, original)
    assert results(original) == right["nothing"], tool
    outcome_of_edit = {}
    for number, (name, edit) in enumerate(EDITS.items()):
        folder = work / f"edit-{number}"
        subprocess.run(["cp", "-a", original, folder], check=True)
        (folder / "runs.log").unlink()
        folder = edit.apply(folder) or folder
        call(command, folder)
        ran = set((folder / "runs.log").read_text().split()) if (folder / "runs.log").exists() else set()
        after = results(folder)
        missed = {step for step in STEPS if after[step] != right[name][step]}
        changed = {step for step in STEPS if right[name][step] != right["nothing"][step]}
        outcome_of_edit[name] = (missed, ran - changed - edit.concerns)
    return outcome_of_edit


def cell(missed: set[str], needless: set[str]) -> str:
    phrases = [f"**{len(missed)} missed**"] * bool(missed) + [f"{len(needless)} needless"] * bool(needless)
    return ", ".join(phrases) or "·"


# The tools of TOOLS, as docs/figures/tools.json calls them
NAMES = ("shell", "dvc", "dvc_all", "ours")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", choices=TOOLS, action="append", help="a tool; may be repeated")
    tools = arguments.parse_args().only or list(TOOLS)
    with tempfile.TemporaryDirectory() as folder:
        right = truth(Path(folder))
        outcomes_of_tool = {}
        for number, tool in enumerate(tools):
            outcomes_of_tool[tool] = outcomes(tool, Path(folder, f"tool-{number}"), right)
            shutil.rmtree(Path(folder, f"tool-{number}"))
            print(f"{tool}: done", file=sys.stderr)
    print(f"Snakemake {version('snakemake')}, DVC {version('dvc')}; steps of {len(STEPS)} per edit\n")
    print("| edit |", " | ".join(tools), "|")
    print("|---" * (len(tools) + 1) + "|")
    for edit in EDITS:
        print(f"| {edit} |", " | ".join(cell(*outcomes_of_tool[tool][edit]) for tool in tools), "|")
    values = {}
    for label, at in (("missed reruns", 0), ("needless reruns", 1)):
        sums = [str(sum(len(pair[at]) for pair in outcomes_of_tool[tool].values())) for tool in tools]
        print(f"| **{label}** |", " | ".join(sums), "|")
        for name, count in zip(NAMES, sums, strict=False):
            values[f"{name}_{label.partition(' ')[0]}"] = Value(int(count))
    if tools == list(TOOLS):
        packages = f"Snakemake {version('snakemake')}, DVC {version('dvc')}"
        store("tools", values, f"{packages}; {len(EDITS)} edits of one pipeline of {len(STEPS)} steps")


if __name__ == "__main__":
    main()
