"""scripts/experiment/layout.py: the paths that docs and users know, and that no module writes one of them by itself."""

import inspect
import re
from pathlib import Path

from scripts.experiment.layout import Layout, raw_archive, raw_manifest, raw_name, shard_files, split_file

L = Layout(Path("results/mine"))


def test_the_paths_of_results_logs_and_raw_archives_stay_as_they_are():
    known = {
        "results/mine/corpus/filter/click": L.filtered("click"),
        "results/mine/corpus/signatures/0": L.signatures("0"),
        "results/mine/corpus/deduplicate": L.deduplicated,
        "results/mine/sources/history/click": L.history("click"),
        "results/mine/corpus/split/test.jsonl.zst": split_file(L.split, "test"),
        "results/mine/corpus/compose/instruct": L.dataset("instruct"),
        "results/mine/tokens/tokenizer": L.tokenizer,
        "results/mine/tokens/pack/instruct-4096/train.tokens.bin": shard_files(L.shards("instruct", 4096))[0],
        "results/mine/training/base": L.model("base"),
        "results/mine/training/train/sft": L.model("sft"),
        "results/mine/training/plan/sft.json": L.plan("sft"),
        "results/mine/work/train/sft": L.work("sft"),
        "results/mine/evaluation/qa/sft": L.suite("qa", "sft"),
        "results/mine/evaluation/gate/eval.json": L.gate,
        "results/mine/report.html": L.page,
        "results/mine/eval.json": L.evaluation,
        "results/mine/logs/training/train/sft.log": L.log("training", "train", "sft"),
        "results/mine/logs/corpus/split.log": L.log("corpus", "split"),
        "logs/sources/fetch/click.log": L.log("sources", "fetch", "click"),
        "data/raw/click-0123456789ab.tar.zst": raw_archive(raw_name("click", "0123456789abcdef")),
        "data/raw/click.json": raw_manifest("click"),
    }
    assert {str(path): name for name, path in known.items()} == {name: name for name in known}


def test_no_rule_and_no_script_writes_a_path_of_the_layout_by_itself():
    written = re.compile(
        r"""["'][^"'\n]*(corpus/(filter|signatures|deduplicate|split|compose)|tokens/(tokenizer|pack)|training/(base|train|plan)"""
        r"""|sources/history|evaluation/(problems|human_ratings|contamination|gate)|work/train)\b"""
    )
    not_these = ("help=", "scripts/training/train.py")
    files = [*Path("rules").glob("*.smk"), *Path("scripts").rglob("*.py")]
    actual = [
        f"{path}: {line.strip()}"
        for path in files
        if path.name != "layout.py"
        for line in re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL).splitlines()
        if written.search(line) and not any(word in line for word in not_these)
    ]
    assert actual == []


def test_the_readme_of_results_names_all_that_lies_there():
    paths = []
    for name, member in vars(Layout).items():
        if isinstance(member, property):
            paths.append(getattr(L, name))
        elif inspect.isfunction(member) and not name.startswith("_"):
            needed = [p for p in inspect.signature(member).parameters.values() if p.default is p.empty]
            paths.append(member(L, *["x"] * (len(needed) - 1)))
    named = re.findall(r"`([\w.]+)/?`", re.sub(r"^[^|].*", "", Path("results/README.md").read_text(), flags=re.M))
    assert {path.relative_to(L.results).parts[0] for path in paths} <= set(named)
