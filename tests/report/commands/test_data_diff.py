"""scripts/report/commands/data_diff.py: folders, and git revisions whose results come from DVC's cache or remote."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.common.manifest import write_manifest
from scripts.corpus.formats.filter_writer import funnel
from scripts.corpus.split import split
from scripts.experiment.layout import Layout
from scripts.experiment.settings.corpus import Split
from scripts.report.commands.data_diff import print_difference

HEADER = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
FILES = {f"m{number}.py": f"text {number}" for number in range(60)}
A = {"alpha": FILES, "beta": {"b.py": "b"}}
B = {"alpha": {**FILES, "m0.py": "new text", "new.py": "x", "m1.py": None}, "gamma": {"g.py": "g"}}  # None: too long


def results(root: Path, sources: dict[str, dict[str, str | None]], tokens: int) -> Path:
    """A results folder, made by the funnel and the split of the rules."""
    layout = Layout(root)

    def document(source, path, text):
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        return {"source": source, "path": path, "text": text, "language": "python", "sha256": sha256}

    for source, files in sources.items():
        with funnel(layout.filtered(source)) as out:
            for path, text in files.items():
                if text is None:
                    out.drop(path, source, "python", "too_long", "74813 characters")
                else:
                    out.keep(document(source, path, text), len(text))
    with funnel(layout.deduplicated) as out:
        for source, files in sources.items():
            for path, text in files.items():
                if text is not None:
                    out.keep(document(source, path, text), len(text))
    write_manifest(layout.signatures("0"), [], sources=[{"name": source} for source in sources])
    split(layout.deduplicated, Split(validation=0.1, test=0.1), layout.split)
    write_manifest(layout.dataset("code"), [], examples={"train": tokens // 10, "validation": 1, "test": 1})
    write_manifest(layout.shards("code", 512), [], splits={"train": {"tokens": tokens}, "validation": {"tokens": 7}})
    return root


@pytest.fixture
def lines(capsys):
    """A function that calls the command and returns what it says."""

    def call(a: object, b: object, configfile: Path | None = None) -> list[str]:
        print_difference(str(a), str(b), "local", configfile)
        return capsys.readouterr().out.splitlines()

    return call


def test_two_folders_are_compared_count_by_count_and_file_by_file(tmp_path, lines):
    a, b = results(tmp_path / "a", A, 1000), results(tmp_path / "b", B, 1500)
    printed = lines(a, b)
    cells = [line.split() for line in printed]
    assert ["files", "seen", "61", "62", "+1"] in cells
    assert ["dropped:", "too_long", "-", "1"] in cells
    assert ["documents", "of", "added", "removed", "changed", "moved"] in cells
    assert ["alpha", "1", "1", "1", "0"] in cells and ["beta", "0", "1", "0", "0"] in cells
    assert "  alpha/m1.py  (B: too_long, 74813 characters)" in printed and "  gamma/g.py" in printed
    assert ["code-512", "train", "1,000", "1,500", "+500"] in cells and "  1 more are the same" in printed
    assert "files: the same" in lines(a, a) and "documents: the same 61, in the same splits" in lines(a, a)


def test_documents_in_another_split_are_said_to_have_moved(tmp_path, lines):
    a, b = results(tmp_path / "a", A, 1000), results(tmp_path / "b", A, 1000)
    split(Layout(b).deduplicated, Split(validation=0.1, test=0.5), Layout(b).split)
    moved = next(line for line in lines(a, b) if line.startswith("moved to another split: "))
    assert int(moved.split()[4].strip(",")) > 5


def git(*words: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x", *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """Two commits, tagged `first` and `second`: the first's results are on the remote, the second's cached."""
    monkeypatch.chdir(tmp_path)
    profile = tmp_path / "local/config.yaml"
    profile.parent.mkdir()
    profile.write_text("configfile: config/tiny.yaml\n")
    git("init", "--quiet")
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text(
        f"[core]\n    remote = shelf\n['remote \"shelf\"']\n    url = {tmp_path}/shelf\n"
    )
    (tmp_path / ".gitignore").write_text("/results\n/shelf\n/.dvc/cache\n/.dvc/tmp\n")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/base.yaml").write_text("experiment: x\nsources: {table: config/tiny.tsv}\n")
    (tmp_path / "config/tiny.yaml").write_text("extends: config/base.yaml\nof_another_time: 1\n")
    for name, sources, tokens, cache in (("first", A, 1000, "shelf"), ("second", B, 1500, ".dvc/cache")):
        rows = [f"{source}\tgit\thttps://x.org/{source}\t{'1' * 40}\tpython\thigh\tMIT\n" for source in sources]
        (tmp_path / "config/tiny.tsv").write_text(
            HEADER + "".join(rows).replace("1", "2" if "gamma" in sources else "1")
        )
        shutil.rmtree(tmp_path / "results", ignore_errors=True)
        results(Path("results"), sources, tokens)
        outs = []
        for path in sorted(path for path in Path("results").rglob("*") if path.is_file()):
            md5 = hashlib.md5(path.read_bytes()).hexdigest()
            (target := tmp_path / cache / "files/md5" / md5[:2] / md5[2:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            outs.append({"path": str(path), "md5": md5, "hash": "md5", "size": path.stat().st_size})
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data/results.dvc").write_text(yaml.safe_dump({"wdir": "..", "outs": outs}))
        git("add", "--all")
        git("commit", "--quiet", "--message", name)
        git("tag", name)
    shutil.rmtree(tmp_path / "results")
    return tmp_path


def test_two_revisions_are_compared_as_their_folders_are_from_cache_and_remote(repository, tmp_path, lines):
    printed = lines("first", "second")
    assert printed[0].startswith("A: first (") and not [line for line in printed if line.startswith("note")]
    at = printed.index("sources: 2 in A, 2 in B")
    assert printed[at + 1 : at + 4] == [
        "  * alpha: pin 111111111111" + "1" * 28 + " -> " + "2" * 40,
        "  - beta: git 111111111111, MIT",
        "  + gamma: git 222222222222, MIT",
    ]
    folders = lines(results(tmp_path / "a", A, 1000), results(tmp_path / "b", B, 1500))
    assert printed[at + 4 :] == folders[4:]


def test_data_that_cannot_be_fetched_is_noted_and_the_sources_are_still_compared(repository, lines):
    shutil.rmtree(repository / "shelf")
    printed = lines("first", "second")
    assert "neither in DVC's cache nor to be had from its remote" in printed[2] and "sources: 2 in A, 2 in B" in printed
    git("rm", "--quiet", "data/results.dvc")
    git("commit", "--quiet", "--message", "third")
    assert "note: B: no published results at this revision, so only the sources are compared" in lines("second", "HEAD")


@pytest.mark.parametrize(
    ("a", "configfile", "line"),
    [
        ("nope", None, "nope: neither a folder of results nor a git revision"),
        ("--all", None, "--all: neither a folder of results nor a git revision"),
        ("config", None, "config: no data in it; give a results folder"),
        ("first", Path("config/none.yaml"), "first: no file config/none.yaml in git at this revision"),
        ("broken", None, "broken:config/tiny.tsv: line 1: column 'nonsense' is unknown"),
    ],
)
def test_a_mistake_is_a_one_line_error(repository, lines, a, configfile, line):
    (repository / "config/tiny.tsv").write_text("nonsense\n")
    git("commit", "--quiet", "--all", "--message", "broken")
    git("tag", "broken")
    with pytest.raises(UserError) as error:
        lines(a, "second", configfile)
    assert str(error.value).startswith(line) and "\n" not in str(error.value)


def test_pins_of_a_folder_come_from_its_eval_json(tmp_path, lines):
    a, b = results(tmp_path / "a", A, 1000), results(tmp_path / "b", A, 1000)
    for root, pin in ((a, "1" * 40), (b, "2" * 40)):
        write_json(root / "eval.json", {"sources": {"alpha": {"kind": "git", "pin": pin, "archive": {}}}})
    assert f"  * alpha: pin {'1' * 40} -> {'2' * 40}" in lines(a, b)
