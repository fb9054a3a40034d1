"""scripts/corpus/formats/own_datasets.py, record_readers.py: chats and texts of the user's own in every form."""

import csv
import gzip
import json
from copy import deepcopy
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.formats import own_datasets
from scripts.corpus.formats.record_readers import content_hash
from scripts.experiment.layout import SPLITS, split_file
from scripts.experiment.settings.corpus import ChatDataset
from tests.corpus.formats.own_data import (
    CHAT,
    TEXT,
    as_saved,
    as_saved_splits,
    chats,
    compose,
    composed,
    every,
    turns,
    write_lines,
)


def as_json(folder: Path, records: list[dict]) -> Path:
    path = folder / "a.json"
    path.write_text(json.dumps(records))
    return path


def as_parquet(folder: Path, records: list[dict]) -> Path:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(records), folder / "a.parquet")
    return folder / "a.parquet"


def as_gzip(folder: Path, records: list[dict]) -> Path:
    (folder / "z").mkdir()
    lines = write_lines(folder / "z/a.jsonl", records)
    (folder / "z/a.jsonl.gz").write_bytes(gzip.compress(lines.read_bytes()))
    lines.unlink()
    return folder / "z"


def as_csv(folder: Path, records: list[dict]) -> Path:
    """Chats of one question each as columns in the form of Alpaca; a cell with a comma, a quote and a line end."""
    if "messages" in records[0]:
        contents = [[turn["content"] for turn in record["messages"]] for record in records]
        records = [{"instruction": question, "output": answer, "note": 'a, "b"\n'} for question, answer in contents]
    with (folder / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    return folder / "a.csv"


def as_sharegpt(folder: Path, records: list[dict]) -> Path:
    names = {"user": "human", "assistant": "gpt"}
    for record in records if "messages" in records[0] else ():
        turns = record.pop("messages")
        record["conversations"] = [{"from": names[turn["role"]], "value": turn["content"]} for turn in turns]
    return write_lines(folder / "sharegpt.jsonl", records)


# the datasets library looks for torch when it hashes what it saves
@pytest.mark.parametrize(
    "form",
    [
        as_json,
        as_parquet,
        as_gzip,
        as_csv,
        as_sharegpt,
        *(pytest.param(form, marks=pytest.mark.slow) for form in (as_saved, as_saved_splits)),
    ],
)
@pytest.mark.parametrize("kind", ["chat", "text"])
def test_each_form_gives_the_same_examples_in_the_same_splits(tmp_path, form, kind):
    records = chats(60) if kind == "chat" else [{"text": f"文章 {i}\n", "other": i} for i in range(60)]
    values = CHAT if kind == "chat" else TEXT
    lines = composed({**values, "path": str(write_lines(tmp_path / "a.jsonl", records))}, tmp_path / "lines")
    examples = composed({**values, "path": str(form(tmp_path, deepcopy(records)))}, tmp_path / "other")
    field = "messages" if kind == "chat" else "text"
    for split in SPLITS:
        assert [example[field] for example in examples[split]] == [example[field] for example in lines[split]]
        assert lines[split], "60 examples leave none of the splits empty"
    actual = sorted((example[field] for example in every(lines)), key=json.dumps)
    assert actual == sorted((record[field] for record in records), key=json.dumps)
    if form is not as_csv:  # whose cells may have several lines
        assert sorted(int(example["id"].rpartition(":")[2]) for example in every(examples)) == [*range(1, 61)]


def test_alpaca_records_have_their_input_system_and_history():
    record = {"instruction": "Add.", "input": "1 2", "output": "3", "system": "Be brief.", "history": [["a", "b"]]}
    contents = [turn["content"] for turn in own_datasets.chat_of(record, "x")[0]]
    assert contents == ["Be brief.", "a", "b", "Add.\n\n1 2", "3"]
    asked = {"prompt": "Add 1 2.", "completion": "3", "history": [["a", "b"]]}
    assert [turn["content"] for turn in own_datasets.chat_of(asked, "x")[0]] == ["a", "b", "Add 1 2.", "3"]
    asked = {"prompt": [{"role": "system", "content": "S"}, *turns("a", "b")], "completion": turns("a", "b")}
    assert [turn["content"] for turn in own_datasets.chat_of(asked, "x")[0]] == ["S", "a", "b"]
    bare = own_datasets.chat_of({"instruction": "Add.", "input": "", "output": "3", "system": None}, "x")[0]
    assert bare == [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "3"}]
    alone = own_datasets.chat_of({"instruction": " ", "input": "1 + 2", "output": "3"}, "x")[0]
    assert alone == [{"role": "user", "content": "1 + 2"}, {"role": "assistant", "content": "3"}]


def test_a_question_with_several_answers_is_in_one_split_however_it_is_written(tmp_path):
    written = ("question {} ", "Question {}", "question\n {}")
    records = [{"messages": turns(written[i % 3].format(i % 40), f"answer {i}")} for i in range(240)]
    path = write_lines(tmp_path / "a.jsonl", records)
    made = composed({**CHAT, "validation": 0.2, "test": 0.2, "path": str(path)}, tmp_path / "out")
    asked = {split: {example["messages"][0]["content"].split()[1] for example in made[split]} for split in SPLITS}
    assert sum(map(len, asked.values())) == 40 and all(asked.values())
    assert sum(map(len, made.values())) == 240


@pytest.mark.parametrize("form", [as_json, as_parquet])
def test_chats_of_one_group_are_in_one_split(tmp_path, form):
    records = [{"messages": turns(f"question {i}", f"answer {i}"), "ticket": i % 40} for i in range(240)]
    records += [{"messages": turns("question", "answer"), "ticket": None}]
    path = form(tmp_path, records)
    values = {**CHAT, "validation": 0.2, "test": 0.2, "path": str(path), "columns": {"group": "ticket"}}
    made = composed(values, tmp_path / "out")
    tickets = {split: {int(e["messages"][0]["content"].split()[1]) % 40 for e in made[split]} for split in SPLITS}
    assert sum(map(len, tickets.values())) == 40 and all(tickets.values())
    dropped = read_manifest(tmp_path / "out")["dropped"]
    assert sum(counts.get("no_group", 0) for counts in dropped.values()) == 1
    assert len(every(made)) == 240


def test_a_group_that_no_record_has_is_refused_before_the_first_job(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", chats(3))
    settings = ChatDataset.parse({**CHAT, "path": str(path), "columns": {"group": "ticket"}}, "chats")
    with pytest.raises(UserError, match=r"a.jsonl: 1: nothing in the field 'ticket' of `columns.group`"):
        own_datasets.check_first_chats(settings)


def test_the_share_of_each_split_is_as_configured_within_binomial_bounds(tmp_path):
    made = composed({**CHAT, "path": str(write_lines(tmp_path / "a.jsonl", chats(2000)))}, tmp_path / "out")
    for split in ("validation", "test"):
        assert abs(len(made[split]) - 400) < 4 * (2000 * 0.2 * 0.8) ** 0.5


def test_a_sample_follows_from_content_and_seed_and_what_it_leaves_out_is_counted(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", chats(100))
    values = {**CHAT, "path": str(path), "max_samples": 30}
    made = every(composed(values, tmp_path / "a"))
    dropped = read_manifest(tmp_path / "a")["dropped"]
    assert len(made) == 30 and sum(counts["not_sampled"] for counts in dropped.values()) == 70
    write_lines(path, list(reversed(chats(100))))
    again = every(composed(values, tmp_path / "b"))
    other_seed = every(composed(values, tmp_path / "c", seed=1))
    words = [{example["messages"][0]["content"] for example in examples} for examples in (made, again, other_seed)]
    assert words[0] == words[1] != words[2]
    assert words[0] != {f"问题 {i}?" for i in range(30)}, "not simply the first ones"


def test_files_of_their_own_are_held_out_and_their_questions_leave_the_training(tmp_path):
    def lines(*questions):
        rows = [{"prompt": question, "completion": f"answer {number}"} for number, question in enumerate(questions)]
        return "".join(json.dumps(row) + "\n" for row in rows)

    (tmp_path / "train.jsonl").write_text(lines("one?", "two?", "three?"))
    (tmp_path / "test.jsonl").write_text(lines("Two?", "four?", "four?"))
    settings = {"kind": "chat", "path": str(tmp_path / "train.jsonl"), "test_path": str(tmp_path / "test.jsonl")}
    whole = ChatDataset.parse({**settings, "validation": 0, "test": 0.9}, "x")
    facts = own_datasets.compose(whole, 1, tmp_path / "out")
    asked = {}
    for name in ("train", "test"):
        asked[name] = [row["messages"][0]["content"] for row in read_jsonl(split_file(tmp_path / "out", name))]
    assert asked == {"train": ["one?", "three?"], "test": ["Two?", "four?", "four?"]}
    assert facts["dropped"]["train"] == {"in_test_path": 1}
    (tmp_path / "test.jsonl").write_text("")
    with pytest.raises(UserError, match=r"corpus\.compose\.out2\.test_path: .*test.jsonl: no example to score"):
        own_datasets.compose(whole, 1, tmp_path / "out2")


def test_text_stops_at_the_configured_size(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"text": f"{i:03}" + "语" * 99} for i in range(100)])  # 300 bytes each
    made = every(composed({**TEXT, "path": str(path), "max_megabytes": 0.0061}, tmp_path / "out"))
    assert sorted(example["text"][:3] for example in made) == [f"{i:03}" for i in range(20)]


def test_a_text_file_is_one_document_and_another_column_is_read_by_name(tmp_path):
    for i in range(20):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / f"in/{i}.md").write_bytes(b"\xef\xbb\xbf" + f"# 文档 {i}\r\n<|endoftext|>\n".encode())
    made = every(composed({**TEXT, "path": str(tmp_path / "in")}, tmp_path / "out"))
    assert {e["text"] for e in made} == {f"# 文档 {i}\r\n<|endoftext|>\n" for i in range(20)}
    path = write_lines(tmp_path / "a.jsonl", [{"body": f"b {i}"} for i in range(20)])
    made = every(composed({**TEXT, "path": str(path), "text_column": "body"}, tmp_path / "other"))
    assert {e["text"] for e in made} == {f"b {i}" for i in range(20)}


REASONS = ("empty", "no_answer", "no_question")


def test_chats_without_a_question_or_an_answer_are_dropped_and_counted(tmp_path):
    more = [
        {"messages": []},
        {"messages": turns("no answer")},
        {"messages": turns("blank", " \n")},
        {"messages": turns("", "an answer to nothing")},
        {"messages": turns("first", "answer", " \t", "an answer to nothing")},
        {"messages": [{"role": "assistant", "content": "unasked"}]},
        {"instruction": "", "input": " ", "output": "an answer to nothing"},
        {"conversations": [{"from": "human", "value": "\n"}, {"from": "gpt", "value": "an answer to nothing"}]},
    ]
    composed({**CHAT, "path": str(write_lines(tmp_path / "a.jsonl", chats(20) + more))}, tmp_path / "out")
    dropped = read_manifest(tmp_path / "out")["dropped"]
    totals = {key: sum(counts.get(key, 0) for counts in dropped.values()) for key in REASONS}
    assert totals == {"empty": 1, "no_answer": 2, "no_question": 5}


FIELD = Path("../shared/data/field")
# what of the files of public reports is kept, and why the rest is left out
REPORTED = {
    "weight_zero.jsonl": set(),
    "weight_zero_messages.jsonl": set(),
    "images_column.json": {"media"},
    "labelled_answers.jsonl": {"undesired_answer"},
    "starts_with_gpt.jsonl": {"no_question"},
    "empty_gpt_between.jsonl": {"no_answer"},
    "reasoning_and_tools.jsonl": {"thinking", "tools"},
    "tools_column.parquet": {"tools"},
    "tools_empty_text.jsonl": set(),
    "from_value_messages.jsonl": set(),
    "weights_of_rows.jsonl": {"weighted"},
    "mask_names_a_role.jsonl": set(),
    "ranking_rows.jsonl": {"ranking"},
}


@pytest.mark.skipif(not FIELD.is_dir(), reason="without the benchmark data beside the repository")
@pytest.mark.parametrize("name", REPORTED)
def test_what_other_tools_train_on_by_mistake_is_left_out_and_counted(tmp_path, name):
    values = {**CHAT, "validation": 0, "test": 0, "path": str(FIELD / name)}
    try:
        kept = composed(values, tmp_path / "out")["train"]
    except UserError as error:  # of one chat that is left out none stays
        assert all(reason in str(error) for reason in REPORTED[name]), error
        return
    assert read_manifest(tmp_path / "out")["dropped"]["train"].keys() >= REPORTED[name]
    trained = [turn for chat in kept for turn in chat["messages"] if turn.get("weight") != 0]
    written = json.dumps(trained)
    assert "BADANSWER" not in written and "UNDESIRED" not in written and "<image>" not in written and kept


USER, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
SAID = {"from": "gpt", "value": "a"}
NO = ({"weight": 0.0}, {"weight": "0"}, {"loss": False}, {"train": "false"}, {"trainable": False}, {"loss_scale": 0})
LEFT_OUT = {
    "untrained_answer": [
        *({"conversations": [{"from": "human", "value": "q"}, SAID | mark]} for mark in (*NO, {"mask": True})),
        *({"messages": [USER, ANSWER | mark]} for mark in (*NO, {"weight": 0.5}, {"train_detail": [{"train": False}]})),
        {"prompt": [USER], "completion": [ANSWER | {"weight": 0.0}]},
        *({"messages": [USER, ANSWER]} | mark for mark in NO),
        *({"messages": [USER, ANSWER], "mask": role} for role in ("Assistant", "gpt")),
        {"messages": [USER, ANSWER | {"loss_mask": 0}]},
    ],
    "weighted": [
        *({"messages": [USER, ANSWER], "weight": value} for value in (0.5, -1, 2, "0.5")),
        *({"messages": [USER, ANSWER], key: 0.5} for key in ("sample_weight", "loss_weight")),
        *({"messages": [USER, ANSWER], key: [0, 0]} for key in ("loss_mask", "weights")),
    ],
    "ranking": [
        {"conversations": [USER], "chosen": SAID, "rejected": SAID},
        {"conversations": [USER, ANSWER, USER], "chosen": {"value": "b"}, "rejected": {"value": "c"}},
    ],
    "undesired_answer": [
        *({"prompt": "q", "completion": "a", "label": label} for label in (False, "False")),
        {"messages": [USER, ANSWER], "label": False},
        {"instruction": "q", "output": "a", "kto_tag": False},
    ],
    "media": [
        *({"messages": [USER, ANSWER], key: ["a.png"]} for key in ("images", "videos", "audios")),
        {"messages": [USER | {"images": ["a.png"]}, ANSWER]},
    ],
    "tools": [
        {"messages": [USER, ANSWER], "tools": '[{"name": "f"}]'},
        {"messages": [{"role": "system", "content": "s", "tools": [{"name": "f"}]}, USER, ANSWER]},
        {"messages": [USER, ANSWER | {"tool_call": {"name": "f"}}]},
    ],
    "history": [{"prompt": "q", "completion": "a", "history": [USER, ANSWER]}],
    "thinking": [
        {"conversations": [{"from": "human", "value": "q"}, SAID | {"thinking": "x"}]},
        *({"messages": [USER, ANSWER | {key: "x"}]} for key in ("thought", "reasoning_details")),
        {"messages": [USER, ANSWER | {"channel": "analysis"}]},
    ],
}
KEPT = [
    {"messages": [USER, ANSWER | {"weight": 1}], "tools": "[]", "images": []},
    {"messages": [USER, ANSWER], "label": 0},  # a class
    {"prompt": "q", "completion": "a", "label": True},
    {"messages": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
    {"messages": [{"role": "prompter", "content": "q"}, {"role": "AI", "content": "a"}]},
    {"messages": [USER | {"from": "the web"}, ANSWER]},
    {"messages": json.dumps([USER, ANSWER])},  # as in a cell of a table
    {"messages": {"role": ["user", "assistant"], "content": ["q", "a"]}},  # as a `Sequence` of the datasets library
    {"prompt": [USER], "completion": [{"from": "human", "value": "q"}, SAID]},
    {"prompt": "q", "completion": [USER, ANSWER], "history": ""},  # as UltraFeedback's `chosen` repeats its prompt
    {"messages": [USER | {"weight": 0}, ANSWER | {"weight": None, "train": True, "mask": False, "thought": ""}]},
    {"messages": [USER | {"role": "User"}, {"role": "model", "content": [{"type": "output_text", "text": "a"}]}]},
]


def test_marks_of_all_forms_of_chats_meet_the_same_checks():
    for reason, records in LEFT_OUT.items():
        for record in records:
            with pytest.raises(own_datasets.BadRecord) as refused:
                own_datasets.chat_of(record, "x")
            assert refused.value.reason == reason, record
    for record in KEPT:
        assert own_datasets.chat_of(record, "x") == ([USER, ANSWER], None), record


def test_a_number_that_is_none_in_an_ignored_field_leaves_the_chat(tmp_path):
    line = json.dumps({"messages": turns("q", "a"), "score": float("nan")})
    (tmp_path / "a.jsonl").write_text(f"{line}\n")
    values = {**CHAT, "validation": 0, "test": 0, "path": str(tmp_path / "a.jsonl")}
    assert composed(values, tmp_path / "out")["train"][0]["messages"] == turns("q", "a")


def test_content_that_differs_from_the_pinned_sha256_is_refused(tmp_path):
    path = write_lines(tmp_path / "in/a.jsonl", chats(20))
    pinned = {**CHAT, "path": str(tmp_path / "in"), "sha256": content_hash(tmp_path / "in")}
    compose(pinned, tmp_path / "out")
    path.write_text(path.read_text() + "\n")
    with pytest.raises(UserError, match=r"corpus\.compose\.other\.sha256: the sha256 of .* is [0-9a-f]{64}"):
        compose(pinned, tmp_path / "other")
    assert not (tmp_path / "other/manifest.json").exists()


def test_developers_prompts_with_completions_and_fields_of_other_names_are_the_same_chats(tmp_path):
    expected = [{"role": "system", "content": "Be brief."}, *turns("Add 1 and 2.", "3")]
    forms = [
        ({"messages": [{"role": "developer", "content": "Be brief."}, *turns("Add 1 and 2.", "3")]}, {}),
        ({"prompt": "Add 1 and 2.", "completion": "3", "system": "Be brief."}, {}),
        ({"prompt": expected[:2], "completion": expected[2:]}, {}),
        (
            {"question": "Add 1 and 2.", "answer": "3", "system": "Be brief."},
            {"prompt": "question", "completion": "answer"},
        ),
        (
            {"dialog": [{"speaker": turn["role"], "text": turn["content"]} for turn in expected]},
            {"messages": "dialog", "role": "speaker", "content": "text"},
        ),
    ]
    for number, (record, columns) in enumerate(forms):
        assert own_datasets.chat_of(record, "x", columns) == (expected, None), record
        path = write_lines(tmp_path / f"{number}.jsonl", [record])
        settings = {**CHAT, "validation": 0, "test": 0, "path": str(path), "columns": columns}
        (example,) = every(composed(settings, tmp_path / f"out-{number}"))
        assert example["messages"] == expected
