"""scripts/experiment/reruns/fingerprint.py: a fingerprint changes with code that a rule reaches, and nothing else."""

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.experiment.optimizers import OPTIMIZERS, modules_of_others
from scripts.experiment.reruns import fingerprint

RULE = '''"""Doc."""
import re
from json import loads
from scripts.common import helper, whole
from scripts.common.cli import run
from scripts.common.words import SHORT, join as joined
from scripts.common.records import Pair, Place, Settings
from scripts.words import all_sounds

LIMIT = 3
UNUSED = 4
PATTERN = re.compile("a")


def f(x, y=LIMIT):
    """Doc."""
    all_sounds()
    return [helper.g(x), joined(loads(y), PATTERN), Place(1).near(), Pair(1, "far"), Settings().length]  # c


def unused():
    return helper.never(UNUSED)


class Reader:
    folder = "launchers"
    spare = 5

    def read(self):
        return getattr(whole, "anything"), getattr(Place(1), "by_name"), self.folder


def main():
    from scripts.common.late import late

    return f(1), Reader().read(), late()


if __name__ == "__main__":
    run(main)
'''
RECORDS = """
from dataclasses import dataclass
from typing import NamedTuple


class Settings(Record):
    length: int = Field(8, ge=1, description="Tokens in a row.")
    spare: int = Field(1)


@dataclass
class Place:
    x: int

    def near(self):
        return 1

    def never(self):
        return 3

    def by_name(self):
        return 4

    def title(self):
        return 5

    def on_end(self):
        return 6

    def forward(self):
        return 7

    @field_validator("x")
    def checked(self):
        return 8


class Pair(NamedTuple):
    a: int
    b: str
"""
FILES = {
    "__init__.py": "",
    "area/__init__.py": "",
    "area/rule.py": RULE,
    "area/launchers/README.md": "It waits.\n",
    "area/launchers/gate.c": "int main;\n// {{ place.title }}\n",
    "common/__init__.py": "",
    "common/cli.py": "import logging\n\ndef run(main):\n    logging.basicConfig(format='%H:%M')\n    main()\n",
    "common/helper.py": "from scripts.common.deep import h\n\ndef g(x):\n    return h(x)\n\n"
    "def never(x):\n    return x\n",
    "common/records.py": RECORDS,
    "common/deep.py": "import json\nh = json.loads\n",
    "common/words.py": "SHORT = 1\nTABLE = {}\n\ndef join(a, b):\n    return TABLE[a] + b\n\nTABLE['x'] = 1\n",
    "common/whole.py": "def anything():\n    return 1\n",
    "common/late.py": "from scripts.common import registry\n\ndef late():\n    return 1\n",
    "common/registry.py": "from scripts.common.kinds import KINDS\n\n@KINDS.append\ndef one():\n    return 1\n",
    "common/kinds.py": "KINDS = []\nspare = 2\n",
    "common/other.py": "x = 1\n",
    "common/discovery.py": "def constants_in(package, name):\n    return getattr(package, name)\n",
    "words/__init__.py": "from scripts.common.discovery import constants_in\n\n"
    "def all_sounds():\n    return constants_in(__name__, 'SOUND')\n\n"
    "def all_colours():\n    return constants_in(__name__, 'COLOUR')\n",
    "words/cat.py": "from scripts.common.records import Pair\n\n"
    "def meow():\n    return 1\n\nSOUND = Pair(meow, 'cat')\nCOLOUR = Pair(7, 'grey')\n",
    "words/dog.py": "from scripts.words import cat\nSOUND = cat.SOUND\nCOLOUR = 8\n",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of its own whose `area.rule` reaches some of each module."""
    for name, text in FILES.items():
        path = tmp_path / "scripts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    yield tmp_path / "scripts", now
    forget()


def forget():
    for cached in (
        fingerprint.path_below,
        fingerprint.read_parts,
        fingerprint.reach,
        fingerprint.fingerprint,
        fingerprint.files_by_name,
    ):
        cached.cache_clear()


def now() -> str:
    forget()
    return fingerprint.fingerprint("scripts.area.rule")


CHANGES = {
    "a comment": ("area/rule.py", "# c", "# another comment", False),
    "a docstring": ("area/rule.py", '"""Doc."""', '"""Another\n\n    docstring."""', False),
    "the description of a setting": ("common/records.py", "Tokens in a row.", "Length of a row in tokens.", False),
    "a bound of a setting": ("common/records.py", "ge=1", "ge=2", False),
    "how log lines look": ("common/cli.py", "%H:%M", "%H:%M:%S", False),
    "the default of a setting": ("common/records.py", "Field(8", "Field(9", True),
    "an unused setting": ("common/records.py", "spare: int = Field(1)", "other: int = Field(2)", False),
    "white space and brackets": ("area/rule.py", "[helper.g(x), joined", "[\n        (helper . g( x )), joined", False),
    "quotes": ("area/rule.py", 'folder = "launchers"', "folder = 'launchers'", False),
    "the order of definitions": ("area/rule.py", "LIMIT = 3\nUNUSED = 4\n", "UNUSED = 4\nLIMIT = 3\n", False),
    "an unused function": ("area/rule.py", "never(UNUSED)", "never(UNUSED + 1)", False),
    "an unused constant": ("area/rule.py", "UNUSED = 4", "UNUSED = 5", False),
    "a new unused constant": ("area/rule.py", "UNUSED = 4", "UNUSED = 4\nNEW = 5", False),
    "an unused import": ("area/rule.py", "import re\n", "import re\nimport sys\n", False),
    "an unused helper": ("common/helper.py", "    return x\n", "    return x + 1\n", False),
    "an unreached module": ("common/other.py", "x = 1", "x = 2", False),
    "a constant beside one that is used": ("common/kinds.py", "spare = 2", "spare = 3", False),
    "quotes around an annotation": ("common/records.py", "x: int", 'x: "int"', False),
    "a field of a record": ("common/records.py", "x: int", "x: float", True),
    "an unused method of a class that is used": ("common/records.py", "return 3", "return 33", False),
    "an unused value of a class that is used": ("area/rule.py", "spare = 5", "spare = 6", False),
    "a method that only getattr names": ("common/records.py", "return 4", "return 44", True),
    "a method that only a template names": ("common/records.py", "return 5", "return 55", True),
    "a method that a library calls when something happens": ("common/records.py", "return 6", "return 66", True),
    "a method that a library calls by its own name": ("common/records.py", "return 7", "return 77", True),
    "a method that a library's decorator registers": ("common/records.py", "return 8", "return 88", True),
    "a used function": ("area/rule.py", "helper.g(x)", "helper.g(x) or 1", True),
    "a used constant": ("area/rule.py", "LIMIT = 3", "LIMIT = 4", True),
    "a constant made by a call": ("area/rule.py", 're.compile("a")', 're.compile("b")', True),
    "a used helper": ("common/helper.py", "h(x)", "h(x or 1)", True),
    "a helper's helper": ("common/deep.py", "json.loads", "json.dumps", True),
    "another library under the same name": ("area/rule.py", "from json import loads", "from orjson import loads", True),
    "another helper under the same name": ("area/rule.py", "import SHORT, join as", "import SHORT, TABLE as", True),
    "a statement that runs at import": ("common/words.py", "TABLE['x'] = 1", "TABLE['x'] = 2", True),
    "a method": ("area/rule.py", 'getattr(whole, "anything"),', 'getattr(whole, "anything")(),', True),
    "what only getattr names": ("common/whole.py", "return 1", "return 2", True),
    "a function that is registered by a decorator": ("common/registry.py", "return 1", "return 2", True),
    "a function imported in a function": ("common/late.py", "return 1", "return 2", True),
    "a file that is no Python": ("area/launchers/gate.c", "int main;", "int main2;", True),
    "a page for readers beside it": ("area/launchers/README.md", "It waits.", "It waits for a line.", False),
    "a constant that is taken of every module of a package": ("words/dog.py", "cat.SOUND", "9", True),
    "a record that is taken of every module of a package": ("words/cat.py", "'cat'", "'lion'", True),
    "a function in a constant that is taken of every module": ("words/cat.py", "return 1", "return 2", True),
    "a constant of these modules that nothing takes": ("words/dog.py", "COLOUR = 8", "COLOUR = 9", False),
    "a record of these modules that nothing takes": ("words/cat.py", "Pair(7", "Pair(9", False),
    "a package that is imported on the way": ("common/__init__.py", "", "print(1)\n", True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_only_code_that_the_rule_reaches_changes_its_fingerprint(project, change):
    scripts, now = project
    file, old, new, changes = CHANGES[change]
    before = now()
    text = (scripts / file).read_text()
    assert old in text
    (scripts / file).write_text(text.replace(old, new) if old else new)
    assert (now() != before) is changes


def test_an_edit_of_a_language_reruns_what_uses_that_part_of_it(tmp_path, monkeypatch):
    shutil.copytree(fingerprint.ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    rules = ("corpus.filter", "corpus.compose", "evaluation.completion_tasks", "tokens.pack", "training.train")

    def fingerprints():
        forget()
        return {rule: fingerprint.fingerprint(f"scripts.{rule}") for rule in rules}

    def changed(name, old, new):
        nonlocal before
        path = tmp_path / "scripts/languages" / name
        text = path.read_text() if path.exists() else ""
        assert old in text
        path.write_text(text.replace(old, new, 1) if old else new)
        earlier, before = before, fingerprints()
        return {rule for rule, code in before.items() if code != earlier[rule]}

    before = fingerprints()
    try:
        # the tasks leave out tests, whose paths stand among the rules for chats
        chats = {"corpus.compose", "evaluation.completion_tasks"}
        assert changed("java.py", '"class or package"', '"class"') == chats
        assert changed("java.py", '"constructor_body"', '"class_body"') == {"evaluation.completion_tasks"}
        assert changed("java.py", "(record_declaration) @type", "") == set(rules[:3])
        assert changed("zig.py", "", "LANGUAGE = 1\n") == set(rules[:3])
    finally:
        forget()


def test_the_code_of_an_optimizer_counts_only_for_the_stages_that_it_trains(tmp_path, monkeypatch):
    shutil.copytree(fingerprint.ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)

    def codes():
        forget()
        train = "scripts.training.train"
        return {name: fingerprint.fingerprint(train, modules_of_others(name)) for name in OPTIMIZERS}

    before = codes()
    with (tmp_path / "scripts/training/model/chunked_loss.py").open("a") as file:
        file.write("UNUSED = 5\n")
    assert codes() == before
    path = tmp_path / "scripts/training/engine/muon.py"
    path.write_text(path.read_text().replace("MOMENTUM = 0.95", "MOMENTUM = 0.96"))
    after = codes()
    forget()
    assert [name for name in OPTIMIZERS if after[name] != before[name]] == ["muon"]


def test_a_checkout_elsewhere_has_the_same_fingerprints(project, tmp_path, monkeypatch):
    scripts, now = project
    before = now()
    shutil.copytree(scripts, tmp_path / "elsewhere" / "scripts")
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path / "elsewhere")
    assert now() == before


@pytest.mark.slow
def test_another_python_gives_the_same_fingerprints():
    """`ast.dump` would not: 3.12 has fields more, 3.13 leaves empty ones out."""
    pythons = [python for minor in range(11, 15) if (python := usable(f"python3.{minor}"))]
    if len(pythons) < 2:
        pytest.skip("needs a second Python of 3.11 to 3.14")
    line = ["-m", "scripts.experiment.reruns.fingerprint", "scripts.evaluation.suites.code", "--reached"]
    outputs = {subprocess.run([python, *line], capture_output=True, check=True).stdout for python in pythons}
    assert len(outputs) == 1


def usable(name: str) -> str | None:
    """The path of a Python that starts; a version manager may have a name for one that it has not chosen."""
    folders = [*Path.home().glob(f".pyenv/versions/{name.removeprefix('python')}*/bin")]
    for path in [shutil.which(name), *(str(folder / name) for folder in folders)]:
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return None


@pytest.mark.slow
def test_every_rule_has_a_fingerprint_of_its_own():
    modules = [
        ".".join(path.with_suffix("").parts) for path in Path("scripts").glob("*/*.py") if path.stem != "__init__"
    ]
    rules = [module for module in modules if fingerprint.read_parts(module).main]
    assert len(rules) > 20
    assert len({fingerprint.fingerprint(module) for module in rules}) == len(rules)
