import hashlib
import json
import random
import re
import sysconfig
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from scripts.common.cli import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.progress import Progress
from scripts.corpus.compose import compose
from scripts.corpus.formats.shares import largest_cap
from scripts.corpus.instruct.chat import SYSTEM, answer_en, answer_zh, code_block
from scripts.corpus.instruct.facts import Facts, Type
from scripts.corpus.instruct.tasks import examples_of
from scripts.experiment.layout import SPLITS
from scripts.experiment.settings.corpus import CodeDataset, Dataset, InstructDataset
from scripts.experiment.settings.record import parse_json, to_json
from tests.corpus.archives import call

SEED = 42
CODE = CodeDataset(kind="code", fim_rate=0.5)
CHAT = InstructDataset(kind="instruct", language="zh", max_characters=1000)
PYTHON = '"""Reads all the tables."""\nimport os\n\n\ndef read(path):\n    return os.stat(path)\n'


def document(text, path="a.py", language="python", source="demo"):
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"text": text, "path": path, "source": source, "language": language, "sha256": digest}


def instruct_example(document, settings):
    made = examples_of(document, settings, SEED)
    return made if isinstance(made, str) else next(made)


def texts(count):
    for seed in range(count):
        rng = random.Random(seed)
        yield f"{seed}" + "".join(rng.choice("ab\r\n 中𝟙é👩\u200d<|endoftext|>") for _ in range(rng.randint(0, 60)))


def write_splits(folder, documents):
    for name in SPLITS:
        write_jsonl(folder / f"{name}.jsonl.zst", documents[name])
    counts = {name: len(documents[name]) for name in SPLITS}
    write_manifest(folder, [f"{name}.jsonl.zst" for name in SPLITS], documents=counts)


def composed(folder, settings, out):
    manifest = compose(folder, settings, SEED, out)
    assert manifest == read_manifest(out)
    return manifest, {name: list(read_jsonl(out / f"{name}.jsonl.zst")) for name in SPLITS}


# --- code ------------------------------------------------------------------------------------------------------


def test_a_code_dataset_has_one_example_per_document_in_order(tmp_path):
    documents = {name: [document(f"{name}{t}", f"{i}.py") for i, t in enumerate(texts(50))] for name in SPLITS}
    write_splits(tmp_path / "in", documents)
    manifest, made = composed(tmp_path / "in", CODE, tmp_path / "out")
    assert manifest["fim"] == {"rate": 0.5, "spm_rate": 0.5, "seed": SEED}
    assert manifest["kind"] == "code" and manifest["examples"] == dict.fromkeys(SPLITS, 50)
    assert manifest["dropped"] == {name: {} for name in SPLITS}
    for name in SPLITS:
        for example, origin in zip(made[name], documents[name], strict=True):
            assert (example["id"], example["language"]) == (f"demo/{origin['path']}", "python")
            assert example["text"] == origin["text"]
    composed(tmp_path / "in", CODE, tmp_path / "again")
    assert (tmp_path / "out/train.jsonl.zst").read_bytes() == (tmp_path / "again/train.jsonl.zst").read_bytes()


@pytest.mark.parametrize(
    ("settings", "reason", "dropped"),
    [
        ({"min_characters": 0, "min_lines": 3}, "few_lines", "one = 1\n"),
        ({"min_characters": 0, "min_lines": 0, "max_line_length": 40}, "long_line", "a" * 41 + "\n"),
        (
            {"min_characters": 0, "min_lines": 0, "min_alphanumeric": 0, "quality": {"min_score": 5}},
            "low_quality",
            "a ( = \n" * 30,
        ),
    ],
)
def test_the_filter_of_a_dataset_drops_training_documents_alone(tmp_path, settings, reason, dropped):
    both = [document(PYTHON, "kept.py"), document(dropped, "dropped.py")]
    write_splits(tmp_path / "in", {name: both for name in SPLITS})
    filtered = CodeDataset.model_validate({"kind": "code", "filter": settings})
    manifest, made = composed(tmp_path / "in", filtered, tmp_path / "out")
    names = {name: [example["id"] for example in made[name]] for name in SPLITS}
    assert names == {name: ["demo/kept.py", "demo/dropped.py"][: 1 if name == "train" else 2] for name in SPLITS}
    assert manifest["dropped"] == {name: {reason: 1} if name == "train" else {} for name in SPLITS}


# --- chats -----------------------------------------------------------------------------------------------------


def test_a_dataset_holds_the_documents_of_its_sources_and_counts_the_others(tmp_path):
    documents = {name: [document(name, f"{one}.py", source=one) for one in ("a", "b", "c")] for name in SPLITS}
    write_splits(tmp_path / "in", documents)
    settings = CODE.model_copy(update={"sources": ["a", "c"]})
    manifest, made = composed(tmp_path / "in", settings, tmp_path / "out")
    assert [example["source"] for example in made["test"]] == ["a", "c"]
    assert manifest["examples"] == dict.fromkeys(SPLITS, 2)
    assert manifest["dropped"]["train"] == {"other_source": 1}


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "code"},
        {"kind": "repository"},
        {"kind": "instruct", "tasks": {"analysis": 1, "signature_to_body": 1}, "max_source_share": 0.6},
    ],
    ids=lambda settings: settings["kind"],
)
def test_progress_counts_the_documents_however_many_examples_they_give(tmp_path, monkeypatch, settings):
    made = []
    monkeypatch.setattr("scripts.corpus.compose.Progress", lambda *given: made.append(Progress(*given)) or made[-1])
    function = 'def f{}(a):\n    """Returns the larger one of both."""\n    b = a\n    return b\n\n\n'
    texts = ["".join(map(function.format, range(count))) for count in (0, 1, 5)]
    documents = [document(text, f"{n}.py", source=one) for one in "abc" for n, text in enumerate(texts)]
    write_splits(tmp_path / "in", dict.fromkeys(SPLITS, documents))
    settings = parse_json(Dataset, json.dumps(settings | {"sources": ["a", "b"]}))
    manifest, _ = composed(tmp_path / "in", settings, tmp_path / "out")
    assert made[0].done == made[0].total == 27
    assert sum(manifest["examples"].values()) != 27


def test_a_chat_is_system_question_with_the_code_and_answer():
    system, user, assistant = instruct_example(document(PYTHON), CHAT)["messages"]
    assert [turn["role"] for turn in (system, user, assistant)] == ["system", "user", "assistant"]
    assert system["content"] == SYSTEM["zh"]
    assert user["content"] == f"请分析以下Python代码的功能和实现：\n\n```python\n{PYTHON}```"
    assert assistant["content"] == (
        "这段 Python 代码定义了函数。源码中的说明写道：“Reads all the tables.”\n\n"
        "主要组成部分如下：\n\n- 函数 `read`。\n\n实现上引用了模块：`os`。"
    )


def test_the_english_chat_says_the_same_in_english():
    _, user, assistant = instruct_example(document(PYTHON), CHAT.model_copy(update={"language": "en"}))["messages"]
    assert user["content"].startswith(
        "Analyze what the following Python code does and how it is implemented:\n\n```python"
    )
    assert assistant["content"] == (
        'This Python code defines functions. Its documentation says: "Reads all the tables."\n\n'
        "Its main parts are:\n\n- function `read`\n\nIt builds on the module `os`."
    )


def test_an_answer_lists_eight_names_and_says_that_there_are_others():
    many = [f"f{i}" for i in range(12)]
    types = [Type("class", "A", ["m", "n"]), Type("enum", "E"), Type("type", "Elsewhere", ["k"])]
    facts = Facts(types=types, functions=many, imports=["a", "b"])
    assert answer_zh(facts, "cpp") == (
        "这段 C++ 代码定义了类、枚举、函数和方法。\n\n"
        "主要组成部分如下：\n\n- 类 `A`：包含方法 `m`、`n`；\n- 枚举 `E`；\n"
        "- 类型 `Elsewhere`：包含方法 `k`；\n"
        "- 函数 `f0`、`f1`、`f2`、`f3`、`f4`、`f5`、`f6`、`f7` 等。\n\n"
        "实现上引用了头文件：`a`、`b`。"
    )
    assert answer_en(facts, "cpp") == (
        "This C++ code defines classes, enums, functions and methods.\n\n"
        "Its main parts are:\n\n- class `A` with methods `m` and `n`\n- enum `E`\n"
        "- type `Elsewhere` with method `k`\n"
        "- functions `f0`, `f1`, `f2`, `f3`, `f4`, `f5`, `f6`, `f7` and others\n\n"
        "It builds on the headers `a` and `b`."
    )


def test_an_answer_claims_nothing_about_what_was_not_found():
    """A macro before a class hides it from the parser, so that nothing is found is no reason to say that it is not."""
    assert answer_zh(Facts(imports=["os"]), "python") == "这段 Python 代码引用了模块：`os`。"
    assert answer_en(Facts(imports=["os"]), "python") == "This Python code builds on the module `os`."
    said = Facts(sentence="Reads all the tables.")
    assert answer_zh(said, "java") == "这段 Java 源码中的说明写道：“Reads all the tables.”"
    assert answer_en(said, "java") == 'The documentation of this Java code says: "Reads all the tables."'


def test_answers_about_real_code_hold_no_figure_and_only_names_and_quotes_out_of_it():
    library = Path(sysconfig.get_path("stdlib"))
    found = 0
    for path in sorted(library.glob("[ac]*.py")):
        text = path.read_text(errors="ignore")
        for language in ("zh", "en"):
            settings = CHAT.model_copy(update={"language": language, "max_characters": 10**6})
            example = instruct_example(document(text, path.name), settings)
            if isinstance(example, str):
                continue
            answer = example["messages"][2]["content"]
            names, quotes = re.findall("`([^`]*)`", answer), re.findall('[“"](.*)[”"]', answer)
            assert all(part in text for name in names for part in name.split(".")), path
            assert all(quote in " ".join(text.split()) for quote in quotes), path
            assert not re.search(r"\d", re.sub('`[^`]*`|[“"].*[”"]', "", answer)), path
            found += 1
    assert found > 40


@pytest.mark.parametrize("text", ["", "x", "x\n", "```\n", "a ```` b", "`" * 50, "~~~"])
def test_a_fence_is_longer_than_any_run_of_backticks_within(text):
    block = code_block(text, "c")
    fence = re.match("`{3,}", block).group()
    assert fence not in text and block.endswith(f"\n{fence}") and block.startswith(f"{fence}c\n{text}")


@pytest.mark.parametrize(
    ("text", "path", "language", "reason"),
    [
        (PYTHON + "#" * 1000, "a.py", "python", "too_long"),
        ("This is prose; it's no (code at all! " * 20, "A.java", "java", "unparsed"),
        ("x = 1\n" * 20, "a.py", "python", "no_facts"),
        ("", "a.py", "python", "no_facts"),
        ("((((((((" * 100, "a.h", "c", "unparsed"),
    ],
)
def test_what_makes_no_chat_is_dropped_for_a_reason(text, path, language, reason):
    assert instruct_example(document(text, path, language), CHAT) == reason


def test_the_limit_counts_characters_and_lets_its_own_length_pass():
    text = '"""' + "函数读取文件。" * 30 + '"""\n'
    assert "messages" in instruct_example(document(text), CHAT.model_copy(update={"max_characters": len(text)}))
    assert instruct_example(document(text), CHAT.model_copy(update={"max_characters": len(text) - 1})) == "too_long"


def test_examples_and_drops_of_a_chat_dataset_add_up(tmp_path):
    kinds = [PYTHON, "x = 1\n" * 20, PYTHON * 50, "class A:\n    def f(self): pass\n"]
    documents = {name: [document(t, f"{i}.py") for i, t in enumerate(kinds)] for name in SPLITS}
    documents["test"] = documents["test"][:1]
    write_splits(tmp_path / "in", documents)
    manifest, made = composed(tmp_path / "in", CHAT.model_copy(update={"system": "Be brief."}), tmp_path / "out")
    assert manifest["examples"] == {"train": 2, "validation": 2, "test": 1}
    both = {"no_facts": 1, "too_long": 1}
    assert manifest["dropped"] == {"train": both, "validation": both, "test": {}}
    assert [example["id"] for example in made["train"]] == ["demo/0.py", "demo/3.py"]
    assert {example["messages"][0]["content"] for example in made["train"]} == {"Be brief."}


# --- at most a share of a source -------------------------------------------------------------------------------


def test_the_largest_cap_is_what_trying_all_caps_finds():
    rng = random.Random(3)
    for _ in range(500):
        counts, share = [rng.randint(1, 40) for _ in range(rng.randint(1, 7))], rng.choice([0.2, 0.25, 0.3, 0.5, 0.9])
        met = [cap for cap in range(1, 41) if cap <= Fraction(str(share)) * sum(min(count, cap) for count in counts)]
        if met:
            assert largest_cap(counts, share) == min(max(met), max(counts))
        else:
            with pytest.raises(ValueError, match=f"impossible with {len(counts)} sources; at least"):
                largest_cap(counts, share)


def test_of_a_source_at_most_its_share_of_the_training_examples_stays_by_name_and_seed(tmp_path):
    sizes = {"a": 40, "b": 12, "c": 8}
    documents = {name: [] for name in SPLITS}
    for source, size in sizes.items():
        documents["train"] += [document(f"{source}{number}", f"{number}.py", source=source) for number in range(size)]
        documents["test"] += [document(source, "x.py", source=source)] * 3
    write_splits(tmp_path / "in", documents)
    settings = CODE.model_copy(update={"max_source_share": 0.4})
    manifest, made = composed(tmp_path / "in", settings, tmp_path / "out")
    left = Counter(example["source"] for example in made["train"])
    # 13 <= 0.4 * (13 + 12 + 8), and 14 > 0.4 * (14 + 12 + 8)
    assert left == {"a": 13, "b": 12, "c": 8}
    assert manifest["dropped"]["train"] == {"source_share": 27} and manifest["examples"]["test"] == 9
    assert [example["id"] for example in made["train"]] == sorted(
        (example["id"] for example in made["train"]),
        key=[f"{document['source']}/{document['path']}" for document in documents["train"]].index,
    )
    documents["train"].append(document("d", "d.py", source="d"))
    write_splits(tmp_path / "in", documents)
    _, more = composed(tmp_path / "in", settings, tmp_path / "more")
    assert {example["id"] for example in made["train"]} < {example["id"] for example in more["train"]}
    with pytest.raises(UserError, match=r"corpus.compose.few.max_source_share: 0.2 is impossible with 4 sources"):
        composed(tmp_path / "in", CODE.model_copy(update={"max_source_share": 0.2}), tmp_path / "few")
    assert not list((tmp_path / "few").glob("*"))


# --- the command line ------------------------------------------------------------------------------------------


def test_the_command_line_composes_and_refuses_documents_that_are_not_their_manifests(tmp_path):
    write_splits(tmp_path / "in", {name: [document(PYTHON)] for name in SPLITS})
    given = ["--splits", tmp_path / "in", "--settings", to_json(CHAT), "--seed", SEED, "--out", tmp_path / "out"]
    assert call("compose", *given).returncode == 0
    damaged = tmp_path / "in/test.jsonl.zst"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    refused = call("compose", *given[:-1], tmp_path / "other")
    assert refused.returncode == 1 and refused.stderr.startswith(
        f"error: {damaged}: {damaged.stat().st_size} bytes, its manifest says "
    )
    assert refused.stderr.count("\n") == 1 and not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ('{"kind": "cod"}', "kind: must be one of code, repository, instruct, chat, text, not 'cod'"),
        ('{"fim_rate": 1}', "kind: required"),
        ('{"kind": "code", "fim_rat": 1}', "fim_rat: unknown key; did you mean `fim_rate`?"),
        ('{"kind": "code", "fim_rate": 2}', "fim_rate: must be at most 1, not 2"),
    ],
)
def test_settings_of_a_dataset_are_those_of_its_kind(settings, line):
    with pytest.raises(UserError) as error:
        parse_json(Dataset, settings)
    assert str(error.value) == f"--settings: {line}"


def test_a_broken_line_leaves_no_manifest(tmp_path):
    write_splits(tmp_path / "in", {name: [document(PYTHON)] for name in SPLITS})
    (tmp_path / "in/test.jsonl.zst").write_bytes(b"not zstd")
    write_manifest(tmp_path / "in", [f"{name}.jsonl.zst" for name in SPLITS], documents=dict.fromkeys(SPLITS, 1))
    with pytest.raises(UserError, match=r"test\.jsonl\.zst"):
        compose(tmp_path / "in", CODE, SEED, tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists() and not (tmp_path / "out/test.jsonl.zst").exists()
