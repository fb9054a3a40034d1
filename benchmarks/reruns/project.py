"""A small pipeline, repositories → filtered → packed → trained → scored, as a project of each of several tools.

Its programs are the same for every tool: plain Python modules `scripts/steps/NAME.py`, which share `scripts/common/`.
Only the lines that start a step differ, as each tool's documentation shows them.
"""

import shutil
from pathlib import Path

from scripts.experiment.reruns import fingerprint, statements

STEPS = ("filter", "pack", "train", "score")

PROGRAMS = {
    "steps/filter.py": '''"""Keep the lines that hold enough words."""

from pathlib import Path

from scripts.common.reader import Reader
from scripts.common.step import start
from scripts.common.text import words


def step(repositories, out, min_words):
    lines = [line for path in sorted(repositories) for line in Reader(path).lines()]
    kept = [line for line in lines if len(words(line)) >= min_words]
    Path(out).write_text("\\n".join(kept) + "\\n")
''',
    "steps/pack.py": '''"""Words as numbers, in rows of one length."""

import json
from pathlib import Path

from scripts.common.step import start
from scripts.common.text import words


def step(filtered, out, length):
    from scripts.common.numbering import numbers  # late, as a slow import is

    ids = numbers([word for line in Path(filtered[0]).read_text().splitlines() for word in words(line)])
    rows = [ids[at : at + length] for at in range(0, len(ids), length)]
    Path(out).write_text(json.dumps(rows))
''',
    "steps/train.py": '''"""A bigram model by gradient steps on the counts."""

import json
from collections import Counter
from pathlib import Path

from scripts.common import schedules
from scripts.common.constants import DECAY
from scripts.common.step import start


def step(packed, out, rate, steps):
    rows = json.loads(Path(packed[0]).read_text())
    pairs = Counter((a, b) for row in rows for a, b in zip(row, row[1:]))
    weights = dict.fromkeys(pairs, 0.0)
    for number in range(steps):
        now = rate * getattr(schedules, "linear")(number, steps)
        for pair, count in pairs.items():
            weights[pair] += now * (count - weights[pair]) * DECAY
    Path(out).write_text(json.dumps(sorted([*pair, weight] for pair, weight in weights.items())))
''',
    "steps/score.py": '''"""The mean weight of the model's pairs."""

import json
from pathlib import Path

from scripts.common.step import start


def step(model, out, digits):
    weights = [weight for _, _, weight in json.loads(Path(model[0]).read_text())]
    Path(out).write_text(json.dumps({"score": round(sum(weights) / len(weights), digits)}))
''',
    "common/text.py": '''"""Texts and words."""

from pathlib import Path

from scripts.common.signs import squeeze

STOP = "stopwords.txt"


def words(line):
    """The words of a line."""
    stop = set(Path(__file__).with_name("stopwords.txt").read_text().split())
    return [word for word in squeeze(line).split() if word not in stop]


def sentences(text):
    return text.split(". ")
''',
    "common/signs.py": """def squeeze(line):
    return "".join(sign if sign.isalnum() else " " for sign in line.lower())
""",
    "common/reader.py": """from pathlib import Path


class Reader:
    def __init__(self, path):
        self.path = Path(path)

    def lines(self):
        return self.path.read_text().splitlines()

    def size(self):
        return self.path.stat().st_size
""",
    "common/numbering.py": """def numbers(words):
    known = {}
    return [known.setdefault(word, len(known)) for word in words]
""",
    "common/schedules.py": """def linear(number, steps):
    return 1 - number / steps


def constant(number, steps):
    return 1.0
""",
    "common/constants.py": "DECAY = 0.5\nMARGIN = 2\n",
    "common/stopwords.txt": "the\na\nof\n",
    "common/step.py": '''"""Start a step from its command line: --out FILE [--NAME NUMBER ...] INPUT ..."""

import sys
from pathlib import Path


def start(name, step):
    out, settings, inputs, words = None, {}, [], iter(sys.argv[1:])
    for word in words:
        if word == "--out":
            out = next(words)
        elif word.startswith("--"):
            value = next(words)
            settings[word[2:]] = float(value) if "." in value else int(value)
        else:
            inputs.append(word)
    with Path("runs.log").open("a") as log:
        log.write(f"{name}\\n")
    step(inputs, out, **settings)
''',
}
SETTINGS = """filter: {min_words: 4}
pack: {length: 16}
train: {rate: 0.25, steps: 8}
score: {digits: 9}
"""
INPUTS = {
    "filter": "repositories",
    "pack": "results/filter.txt",
    "train": "results/pack.txt",
    "score": "results/train.txt",
}
SETTINGS_OF = {"filter": ["min_words"], "pack": ["length"], "train": ["rate", "steps"], "score": ["digits"]}

BY_SHELL = '\n\nif __name__ == "__main__":\n    start("{name}", step)\n'


def write_project(folder: Path) -> None:
    """The programs, settings and repositories."""
    for name, text in PROGRAMS.items():
        path = folder / "scripts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        if path.parent.name == "steps":
            text += BY_SHELL.format(name=path.stem)
        path.write_text(text)
    (folder / "scripts/__init__.py").touch()
    (folder / "config.yaml").write_text(SETTINGS)
    (folder / "repositories").mkdir()
    for name in ("first", "second"):
        lines = [
            f"the {name} line of number {n} holds {n % 7} and a {n % 5} of {name} signs" + " more" * (n % 3)
            for n in range(200)
        ]
        (folder / f"repositories/{name}.txt").write_text("\n".join(lines) + "\nshort line\n")


def write_snakefile(folder: Path, end: str, head: str = "") -> None:
    """The rules; `end` is what follows a rule's output, with the step as {name}."""
    text = f'from glob import glob\n{head}configfile: "config.yaml"\n\n\nrule all:\n    input: "results/score.txt"\n'
    for name in STEPS:
        data = 'sorted(glob("repositories/*.txt"))' if name == "filter" else f'"{INPUTS[name]}"'
        text += f"\n\nrule {name}:\n    input: data={data}\n    output: 'results/{name}.txt'\n{end}".replace(
            "{name}", name
        )
    (folder / "Snakefile").write_text(text)


OPTIONS = "options=' '.join(f'--{key} {value}' for key, value in config['{name}'].items())"
COMMAND = "    shell: 'python -m scripts.steps.{name} --out {output} {params.options} {input.data}'\n"


def by_shell(folder: Path) -> None:
    """Snakemake's `shell:`, the settings as params."""
    write_project(folder)
    write_snakefile(folder, f"    params: {OPTIONS}\n{COMMAND}")


def ours(folder: Path) -> None:
    """The same, with our fingerprint of the code among the params."""
    write_project(folder)
    reruns = folder / "scripts/experiment/reruns"
    reruns.mkdir(parents=True)
    for package in (reruns.parent, reruns):
        (package / "__init__.py").touch()
    for module in (fingerprint, statements):
        shutil.copy(module.__file__, reruns)
    head = "import sys\nsys.path.insert(0, workflow.basedir)\n"
    head += "from scripts.experiment.reruns.fingerprint import fingerprint\n\n"
    write_snakefile(folder, f"    params: {OPTIONS}, code=fingerprint('scripts.steps.{{name}}')\n{COMMAND}", head)


def by_dvc(folder: Path, code: str = "scripts/steps/{name}.py") -> None:
    """DVC stages: program, data and the stage's parameters are its dependencies."""
    write_project(folder)
    shutil.move(folder / "config.yaml", folder / "params.yaml")
    text = "stages:\n"
    for name in STEPS:
        source = INPUTS[name]
        options = " ".join(f"--{key} ${{{name}.{key}}}" for key in SETTINGS_OF[name])
        inputs = "repositories/*.txt" if name == "filter" else source
        text += f"  {name}:\n    cmd: python -m scripts.steps.{name} --out results/{name}.txt {options} {inputs}\n"
        text += (
            f"    deps: [{code.format(name=name)}, {source}]\n    params: [{name}]\n    outs: [results/{name}.txt]\n"
        )
    (folder / "dvc.yaml").write_text(text)
    (folder / "results").mkdir()
    (folder / ".dvcignore").write_text("__pycache__\n")


def by_dvc_with_all(folder: Path) -> None:
    """The same, with all of scripts/ as a dependency of each stage."""
    by_dvc(folder, "scripts")


# tool → what makes its project, and the command that brings the result up to date
SNAKEMAKE = ["snakemake", "--cores", "1", "--quiet"]
DVC = ["dvc", "repro", "--quiet"]
TOOLS = {
    "Snakemake, `shell:`": (by_shell, SNAKEMAKE),
    "DVC, program a dependency": (by_dvc, DVC),
    "DVC, all programs a dependency": (by_dvc_with_all, DVC),
    "stagecraft": (ours, SNAKEMAKE),
}
