"""scripts/corpus/formats/own_datasets.py, record_readers.py: malformed and hostile files are refused in one line, bad
records in good files are left out, counted and shown."""

import gzip
import json

import pytest

from scripts.common.errors import UserError
from scripts.corpus.formats import record_readers
from tests.corpus.archives import call
from tests.corpus.formats.own_data import CHAT, TEXT, as_saved, as_saved_splits, chats, compose, turns, write_lines

pytestmark = pytest.mark.fault("chats and texts", "hostile input")

FINE = json.dumps(chats(1)[0]).encode() + b"\n"


def record(messages: object) -> bytes:
    return FINE + json.dumps({"messages": messages}).encode() + b"\n"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", FINE + b'\n{"messages": [\n', "a.jsonl: line 3: not JSON"),
        ("a.jsonl", FINE[:-5], "a.jsonl: line 1: not JSON"),
        ("a.jsonl", FINE.decode().encode("utf-16"), "a.jsonl: line 1: not JSON"),
        ("a.jsonl", FINE + '{"messages": "你"}'.encode("gbk"), "a.jsonl: line 2: not JSON: it is not UTF-8"),
        ("a.jsonl", FINE + b"[1]\n", "a.jsonl: 2: no `messages`"),
        ("a.jsonl", FINE + b'{"conversations": {}}\n', "a.jsonl: 2: no `messages`"),
        ("a.jsonl", FINE + b'{"instruction": "a"}\n', "a.jsonl: 2: no `messages`"),
        ("a.jsonl", FINE + b'{"instruction": 1, "output": "b"}\n', "a.jsonl: 2: `instruction` must be text, not 1"),
        (
            "a.jsonl",
            FINE + b'{"instruction": "a", "output": "b", "history": ["c"]}\n',
            "a.jsonl: 2: `history` must be a list of",
        ),
        ("a.jsonl", FINE + b'{"conversations": [{"from": "gpt"}]}\n', "a.jsonl: 2: message 1: content must be text"),
        ("a.jsonl", FINE + b'{"conversations": [{"from": "x", "value": ""}]}\n', "a.jsonl: 2: message 1: role must be"),
        (
            "a.jsonl",
            FINE + b'{"conversations": [{"from": "observation", "value": ""}]}\n',
            "a.jsonl: 2: message 1: role tool",
        ),
        ("a.jsonl", FINE + b'{"tools": [{"name": "f"}], "messages": []}\n', "a.jsonl: 2: `tools`: tool calls are not"),
        ("a.jsonl.gz", gzip.compress(FINE, mtime=0)[:-9], "a.jsonl.gz: not a complete gzip file"),
        ("a.jsonl.gz", FINE, "a.jsonl.gz: not a complete gzip file"),
        ("a.jsonl.gz", gzip.compress(FINE + b"{", mtime=0), "a.jsonl.gz: line 2: not JSON"),
        ("a.csv", b"instruction,output\na,b\nc\n", "a.csv: line 3: fewer cells than the 2 columns"),
        ("a.csv", b"instruction,output\na,b,c\n", "a.csv: line 2: more cells than the 2 columns"),
        ("a.csv", b"question,answer\na,b\n", "a.csv: 2: no `messages`"),
        ("a.csv", b'instruction,output\na,"b\n', "a.csv: not CSV"),
        ("a.csv", "instruction,output\n你,b\n".encode("gbk"), "a.csv: not CSV in UTF-8"),
        ("a.jsonl", record("abc"), "a.jsonl: 2: no `messages`"),
        ("a.jsonl", record(["abc"]), "a.jsonl: 2: message 1: role must be system, user, assistant, not 'abc'"),
        ("a.jsonl", record([{"role": "narrator", "content": "a"}]), "a.jsonl: 2: message 1: role must be"),
        ("a.jsonl", record([{"role": ["user"], "content": "a"}]), "a.jsonl: 2: message 1: role must be"),
        ("a.jsonl", record([*turns("a"), {"role": "assistant"}]), "a.jsonl: 2: message 2: content must be text"),
        (
            "a.jsonl",
            record([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]),
            "a.jsonl: 2: message 1: content part 1 must be of type text, not 'image_url'",
        ),
        (
            "a.jsonl",
            record([*turns("a"), {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]),
            "a.jsonl: 2: message 2: `tool_calls`: tool calls are not trained on; leave such chats out",
        ),
        (
            "a.jsonl",
            record([*turns("a"), {"role": "assistant", "content": "b", "weight": 0}]),
            "a.jsonl: 2: all of its answers are marked as not to be trained on",
        ),
        (
            "a.jsonl",
            record([*turns("a"), {"role": "assistant", "content": "b", "reasoning_content": "c"}]),
            "a.jsonl: 2: message 2: `reasoning_content` is not trained on; remove it",
        ),
        ("a.jsonl", record([{"role": "tool", "content": "4"}]), "a.jsonl: 2: message 1: role tool: tool calls are not"),
        ("a.jsonl", record([{"role": "user", "content": 1}]), "a.jsonl: 2: message 1: content must be text, not 1"),
        ("a.jsonl", b"", "a.jsonl: no example left to train on"),
        ("a.json", b"", "a.json: line 1: not JSON"),
        ("a.json", b'[\n{"messages": []},\n{]\n', "a.json: line 3: not JSON"),
        ("a.json", b'{"messages": []}', "a.json: must hold a list of records, not dict"),
        ("a.json", FINE * 2, "a.json: line 2: not JSON"),
        ("a.parquet", b"PAR1 and nothing", "a.parquet: not a Parquet file, or a damaged one"),
        ("a.txt", b"text", "a.txt: holds no chats"),
        ("a.exe", b"MZ", "a.exe: format not supported; use .json"),
    ],
)
def test_malformed_records_are_one_line_errors_with_file_and_line(tmp_path, caplog, name, content, says):
    (tmp_path / name).write_bytes(content)
    held_out = {"validation": 0.499, "test": 0.5}  # the fine record, too
    with pytest.raises(UserError) as error:
        compose({**CHAT, **held_out, "path": str(tmp_path / name)}, tmp_path / "out")
    warnings = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    lines = [str(error.value), *(warning.split(": ", 2)[2] for warning in warnings)]
    assert any(line.startswith(f"{tmp_path}/{says}") for line in lines), lines
    assert "\n" not in str(error.value) and not list((tmp_path / "out").glob("*"))


def test_bad_records_are_left_out_counted_by_reason_and_the_first_of_each_is_shown(tmp_path, caplog):
    answer = {"role": "assistant", "content": "b"}
    bad = {
        "no_messages": [{"text": "x"}, 7],
        "role": [{"messages": [{"role": "narrator", "content": "a"}]}],
        "no_text": [{"messages": [{"role": "user", "content": 1}]}, {"prompt": "a", "completion": 1}],
        "tools": [{"messages": [*turns("a"), {**answer, "tool_calls": [{"id": "1"}]}]}],
        "untrained_answer": [{"messages": [*turns("a"), {**answer, "weight": 0}]}],
        "thinking": [{"messages": [*turns("a"), {**answer, "reasoning_content": "c"}]}],
    }
    path = write_lines(tmp_path / "a.jsonl", [*chats(40), *(row for rows in bad.values() for row in rows)])
    path.write_bytes(path.read_bytes() + b'{"messages": [\n')
    manifest = compose({**CHAT, "path": str(path)}, tmp_path / "out")
    assert sum(manifest["examples"].values()) == 40
    counted = {}
    for counts in manifest["dropped"].values():
        for reason, count in counts.items():
            counted[reason] = counted.get(reason, 0) + count
    assert counted == {reason: len(rows) for reason, rows in bad.items()} | {"not_json": 1}
    shown = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(shown) == len(bad) + 1
    assert shown[0].startswith(f"warning: left out, and counted as no_messages: {path}: 41: no `messages`")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"fine \xff", "a.txt: byte 5: not UTF-8"),
        ("a.jsonl", b'{"content": "x"}\n', "a.jsonl: 1: no column or field 'text'; it has: content; see `text_column`"),
        ("a.jsonl", b'{"text": 1}\n', "a.jsonl: 1: 'text' must be text, not int"),
        ("a.jsonl", b'{"text": "  "}\n', "a.jsonl: no example left to train on; dropped: 1 empty"),
    ],
)
def test_malformed_text_is_a_one_line_error(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        compose({**TEXT, "path": str(tmp_path / name)}, tmp_path / "out")
    assert str(error.value).startswith(f"{tmp_path}/{says}"), str(error.value)


@pytest.mark.slow
def test_a_folder_that_is_empty_damaged_or_missing_is_a_one_line_error(tmp_path):
    for path, says in ((tmp_path / "none", "no such file or folder"), (tmp_path / "empty", "an empty folder")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(UserError, match=says):
            compose({**CHAT, "path": str(path)}, tmp_path / "out")
    saved = as_saved(tmp_path, chats(20))
    with pytest.raises(UserError, match="no split 'validation'; it has: train, other"):
        compose({**CHAT, "split": "validation", "path": str(as_saved_splits(tmp_path / "x", chats(9)))}, tmp_path / "o")
    next(saved.glob("*.arrow")).write_bytes(b"ARROW")
    with pytest.raises(UserError, match="the datasets library cannot load it") as error:
        compose({**CHAT, "path": str(saved)}, tmp_path / "out")
    assert "\n" not in str(error.value)


def test_a_huge_line_and_a_huge_file_are_refused_before_they_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(record_readers, "MAX_LINE", 1000)
    monkeypatch.setattr(record_readers, "MAX_JSON", 1000)
    (tmp_path / "a.jsonl").write_bytes(FINE + b"[" * 5000)
    (tmp_path / "a.json").write_bytes(b"[" * 5000)
    with pytest.raises(UserError, match=r"a\.jsonl: line 2: longer than"):
        compose({**CHAT, "path": str(tmp_path / "a.jsonl")}, tmp_path / "out")
    with pytest.raises(UserError, match=r"a\.json: larger than"):
        compose({**CHAT, "path": str(tmp_path / "a.json")}, tmp_path / "out")


def test_the_hub_without_a_network_is_a_one_line_error(tmp_path, monkeypatch):
    import datasets

    def refuse(*_, **__):
        raise ConnectionError("Couldn't reach 'a/b' on the Hub\n(offline)")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(UserError, match="a/b: cannot download it from the hub") as error:
        compose({**TEXT, "hub": "a/b", "revision": "0" * 40}, tmp_path / "out")
    assert "\n" not in str(error.value)


def test_the_command_line_composes_without_splits_and_refuses_in_one_line(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", chats(30))
    line = ["--settings", json.dumps({**CHAT, "path": str(path)}), "--seed", 42, "--out", tmp_path / "out"]
    assert call("compose", *line).returncode == 0
    path.write_text("{")
    done = call("compose", *line[:-1], tmp_path / "other")
    warning, error = done.stderr.splitlines()
    assert warning.endswith(f"counted as not_json: {path}: line 1: not JSON: unexpected end of data")
    assert (done.returncode, error) == (1, f"error: {path}: no example left to train on; dropped: 1 not_json")
    code = call("compose", "--settings", '{"kind": "code"}', "--seed", 42, "--out", tmp_path / "code")
    assert code.returncode == 1 and code.stderr == "error: --splits: required for the kinds code and instruct\n"
