"""Whole repositories as documents: files after those that they import, control tokens where Qwen has them."""

import ast
import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.corpus.compose import compose, repository_documents
from scripts.corpus.syntax.imports import sort_by_imports
from scripts.experiment.layout import SPLITS
from scripts.experiment.settings.corpus import RepositoryDataset
from scripts.tokens.packing.base_tokenizer import check_base_tokenizer

ROOT = Path(__file__).parents[3]
# (path, text): each repository in the order that imports give
REPOSITORIES = {
    "python": [
        ("src/tool/core.py", "import os\nimport secrets\n"),
        ("src/tool/secrets.py", "from . import core\n"),
        ("src/tool/cli/__init__.py", "from tool.core import (\n    run,\n)\nfrom ..secrets import hide\n"),
        ("src/app.py", "import tool.cli as cli\n"),
    ],
    "java": [
        ("src/main/java/org/x/util/List.java", "package org.x.util;\n"),
        ("src/main/java/org/x/App.java", "import java.util.List;\nimport static org.x.util.List.of;\n"),
    ],
    "go": [
        ("pkg/zap/b.go", "package zap\n"),
        ("pkg/zap/z.go", "package zap\n"),
        ("cmd/main.go", 'import (\n\t"fmt"\n\tlog "x.org/tool/pkg/zap"\n)\n'),
    ],
    "rust": [
        ("src/io.rs", "use std::io;\n"),
        ("src/fmt/mod.rs", "use crate::io::Read;\n"),
        ("src/lib.rs", "pub mod fmt;\npub(crate) mod io;\n"),
    ],
    "c": [
        ("include/z.h", "#include <stdio.h>\n"),
        ("src/a.c", '#include "../include/z.h"\n'),
    ],
    "cpp": [
        ("include/fmt/core.h", "#pragma once\n"),
        ("include/fmt/base.h", "#include <fmt/core.h>\n"),
        ("src/core.h", "// another one\n"),
        ("src/a.cc", '#  include "core.h"\n#include "fmt/base.h"\n'),
    ],
}


def document(path: str, text: str, language: str = "python", source: str = "demo") -> dict:
    return {"path": path, "text": text, "language": language, "source": source}


@pytest.mark.parametrize("language", REPOSITORIES)
def test_a_file_comes_after_those_that_it_imports_in_every_language_whatever_the_order(language):
    for seed in range(6):
        files = [document(*file, language) for file in REPOSITORIES[language]]
        random.Random(seed).shuffle(files)
        order = [file["path"] for file in sort_by_imports(files)]
        if language == "cpp":
            assert order.index("include/fmt/core.h") < order.index("include/fmt/base.h") < order.index("src/a.cc")
            assert order.index("src/core.h") < order.index("src/a.cc")
        elif language == "go":
            assert order[-1] == "cmd/main.go"
        else:
            assert order == [path for path, _ in REPOSITORIES[language]]


def test_this_repository_is_ordered_as_its_parsed_imports_say():
    """The reference parses with `ast`: nearly every import between two modules goes back in the order."""
    files = [
        document(path.relative_to(ROOT).as_posix(), path.read_text())
        for path in sorted((ROOT / "scripts").rglob("*.py"))
    ]
    order = {file["path"]: position for position, file in enumerate(sort_by_imports(files))}
    assert len(order) == len(files)
    wrong = total = 0
    for file in files:
        for node in ast.parse(file["text"]).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = f"{node.module.replace('.', '/')}.py"
                if imported in order:
                    total, wrong = total + 1, wrong + (order[imported] > order[file["path"]])
    assert total > 1000 and wrong / total < 0.005


def test_circles_odd_names_and_files_that_import_themselves_come_out_once_each():
    files = [
        document("a.py", "import b\nimport a\n"),
        document("b.py", "import a\nfrom . import\nfrom .. import x\nimport\n"),
        document("x|y <s>.py", "from ..... import a\n"),
        document("no_ending", "#include <a>\n", "c"),
        document("a/__init__.py", "", "python"),
        document("__init__.py", "from .a import b\n"),
        document("prose.txt", "import a", "prose"),
    ]
    assert sorted(file["path"] for file in sort_by_imports(files)) == sorted(file["path"] for file in files)
    chain = [
        document(f"m{number}.py", f"import m{number + 1}\n") for number in range(5000)
    ]  # deeper than recursion goes
    assert [file["path"] for file in sort_by_imports(chain)] == [file["path"] for file in reversed(chain)]


def test_an_example_is_qwens_form_with_a_mark_at_each_control_token():
    files = [document("a.py", "import b\n"), document("b.py", "<|file_sep|>no line end")]
    (example,) = repository_documents(files, 10_000)
    assert example["text"] == "demo\nb.py\n<|file_sep|>no line end\na.py\nimport b\n"
    assert example["files"] == ["b.py", "a.py"] and example["id"] == "demo/b.py"
    at = example["text"].index
    assert example["marks"] == [[0, "<|repo_name|>"], [at("b.py"), "<|file_sep|>"], [at("a.py"), "<|file_sep|>"]]


def test_a_large_repository_is_several_documents_and_no_file_is_lost_or_cut():
    files = [document(f"{number}.py", f"x = {number}\n" * 20, source=f"s{number // 40}") for number in range(100)]
    made = list(repository_documents(files, 1000))
    assert [name for example in made for name in example["files"]] == [example["path"] for example in files]
    assert all(len(example["text"]) <= 1000 + 4 for example in made)
    assert len({example["id"] for example in made}) == len(made) > 10
    assert [example["files"] for example in repository_documents(files[:2], 5)] == [["0.py"], ["1.py"]]
    assert list(repository_documents([], 10)) == []


def test_compose_writes_repositories_and_the_manifest_counts_them(tmp_path):
    for split in SPLITS:
        files = [document(f"{split}{number}.py", "x\n", source=source) for source in "ab" for number in range(3)]
        write_jsonl(tmp_path / f"in/{split}.jsonl.zst", files)
    write_manifest(tmp_path / "in", [f"{split}.jsonl.zst" for split in SPLITS], documents=dict.fromkeys(SPLITS, 6))
    manifest = compose(tmp_path / "in", RepositoryDataset(kind="repository", sources=["b"]), 42, tmp_path / "out")
    assert manifest == read_manifest(tmp_path / "out") and manifest["examples"] == dict.fromkeys(SPLITS, 1)
    assert manifest["dropped"]["train"] == {"other_source": 3} and "fim" not in manifest
    (example,) = read_jsonl(tmp_path / "out/train.jsonl.zst")
    assert example["source"] == "b" and len(example["marks"]) == 4


def test_a_base_without_the_tokens_is_refused_before_any_job(tmp_path):
    datasets = {"whole": RepositoryDataset(kind="repository")}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|repo_name|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(
        UserError, match=r"^corpus.compose.whole.kind: .* has no <\|file_sep\|>; use `kind: code`, or a"
    ):
        check_base_tokenizer(tmp_path, datasets, ["whole"])
    check_base_tokenizer(tmp_path, datasets, [])
    tokenizer.add_special_tokens(["<|file_sep|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    check_base_tokenizer(tmp_path, datasets, ["whole"])
