"""Rule contamination: planted overlaps, an independent plain search, hostile texts, and scores without overlaps."""

import json
import random
import unicodedata
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import write_jsonl
from scripts.common.manifest import write_manifest
from scripts.corpus.similarity import overlaps
from scripts.evaluation.contamination import ContaminationSettings, contamination
from scripts.evaluation.suites import prompts_of
from scripts.evaluation.suites.code import Settings as Code
from scripts.evaluation.suites.keywords import Settings as Keywords
from scripts.evaluation.suites.qa import Settings as Qa
from tests.evaluation.synthetic import dump

TEN = "alpha beta gamma delta epsilon zeta eta theta iota kappa"
HAN = "春眠不觉晓处处闻啼鸟"


def chat(*contents: str) -> list[dict]:
    roles = ["system", "user", "assistant", "user", "assistant"]
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]


def search(datasets: Path, train: list[str], suites: dict, words: int = 10, common: float = 1) -> dict:
    """The `suites` of overlaps.json."""
    settings = ContaminationSettings.parse({"words": words, "common": common, "suites": suites}, "test")
    return contamination(datasets, train, settings, datasets.parent / "overlaps.json")["suites"]


class ComposeFolder:
    """A compose folder with a dataset `chats` of test chats and a dataset `code` of training examples."""

    def __init__(self, folder: Path):
        self.folder = folder

    def check(self, problems: list, training: list, words: int = 10, common: float = 1) -> dict:
        """The row of overlaps.json for `problems`: chats, or texts: prompts with a full stop as reference."""
        chats = [text if isinstance(text, list) else chat("", text, ".") for text in problems]
        tests = [
            {"id": f"p{number}", "language": "chat", "messages": messages} for number, messages in enumerate(chats)
        ]
        examples = [content if isinstance(content, dict) else {"text": content} for content in training]
        trains = [{"id": f"t{number}", "language": "go", **content} for number, content in enumerate(examples)]
        for name, splits in {"chats": {"test": tests, "train": []}, "code": {"test": [], "train": trains}}.items():
            for split, records in splits.items():
                write_jsonl(self.folder / name / f"{split}.jsonl.zst", records)
            counts = {split: len(records) for split, records in splits.items()}
            write_manifest(self.folder / name, ["train.jsonl.zst", "test.jsonl.zst"], examples=counts)
        suites = {"qa": {"datasets": ["chats"], "documents": 10**6}}
        return search(self.folder, ["chats", "code"], suites, words, common)["qa"]["chats"]


@pytest.fixture
def compose_folder(tmp_path) -> ComposeFolder:
    return ComposeFolder(tmp_path)


def cut(text: str) -> list[str]:
    """The words of a text, character by character."""
    words, word = [], ""
    for character in [*text.casefold(), " "]:
        han = unicodedata.name(character, "").startswith(("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH"))
        if not han and (character.isalnum() or character == "_"):
            word += character
            continue
        words += [word] * bool(word) + [character] * han
        word = ""
    return words


def grams(text: str, size: int) -> list[tuple[str, ...]]:
    words = cut(text)
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]


def plain_search(problems: list[str], training: list[str], size: int, common: float) -> dict[str, float]:
    """id → share of its n-grams that stand in training and in few problems, of those that have such ones."""
    training_grams, overlaps = {gram for text in training for gram in grams(text, size)}, {}
    holders = {}
    for number, text in enumerate(problems):
        for gram in grams(text, size):
            holders.setdefault(gram, set()).add(number)
    for number, text in enumerate(problems):
        own = grams(text, size)
        hits = [gram for gram in own if gram in training_grams and len(holders[gram]) <= max(1, common * len(problems))]
        if hits:
            overlaps[f"p{number}"] = len(hits) / len(own)
    return overlaps


@pytest.mark.parametrize(
    ("problem", "training", "overlaps"),
    [
        (TEN, f"before {TEN} after", True),
        (f"before {TEN} after", TEN, True),
        (TEN, TEN.removesuffix(" kappa"), False),
        (TEN, TEN.replace(" epsilon", ""), False),
        (TEN, TEN.replace("epsilon", "epsilons"), False),
        (TEN, TEN.upper().replace(" ", ",\r\n\t* "), True),
        (TEN.replace("beta", "Straße"), TEN.replace("beta", "STRASSE"), True),
        (f"请说明{HAN}。", f"孟浩然：{'，'.join(HAN)}！", True),
        (HAN, HAN[:9], False),
        (f"{HAN[:5]}sort_items(){HAN[5:9]}", f"{HAN[:5]} Sort_Items {HAN[5:9]}", True),
        (f"{HAN[:5]}sort_items{HAN[5:9]}", f"{HAN[:5]}sort items{HAN[5:9]}", False),
        (TEN, {"messages": chat(f"you: {TEN}", "hi", "ho")}, True),
        (TEN, {"messages": chat("", f"my {TEN}?", "ho")}, True),
        (TEN, {"messages": chat("", "hi", "ho", "and?", f"it is {TEN}")}, True),
    ],
)
def test_ten_words_in_a_row_are_an_overlap_and_nine_are_none(compose_folder, problem, training, overlaps):
    row = compose_folder.check([problem, "something else"], ["unrelated", training])
    assert list(row["overlapping"]) == ["p0"] * overlaps
    if overlaps:
        run = row["overlapping"]["p0"]
        assert (run["dataset"], run["document"], run["length"]) == ("code", "t1", 10)
        assert tuple(run["words"].split()) in grams(problem, 10)


def test_cases_and_benchmarks_are_read_as_their_suites_read_them(compose_folder, tmp_path):
    compose_folder.check(["x"], [f"def f(): {TEN}", f"# {TEN.replace('beta', 'two')}"])
    dump(tmp_path / "cases.yaml", {"one": {"language": "go", "prompt": f"Write {TEN}", "keywords": ["func"]}})
    body = TEN.replace("beta", "two").split()
    record = {"task_id": "H/0", "prompt": " ".join(body[:4]), "entry_point": "f", "test": TEN}
    solved = record | {"canonical_solution": f" {' '.join(body[4:])}"}
    (tmp_path / "human.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in (solved, record | {"task_id": "H/1"}))
    )
    suites = {
        "keywords": {"cases": str(tmp_path / "cases.yaml")},
        "code": {"benchmarks": [{"path": str(tmp_path / "human.jsonl")}]},
    }
    overlaps = search(tmp_path, ["code"], suites)
    assert list(overlaps["keywords"]["cases"]["overlapping"]) == ["one"]
    assert overlaps["code"]["human"]["overlapping"]["H/0"]["document"] == "t1"
    assert overlaps["code"]["human"]["too_short"] == 1  # four words: the tests of a problem are no part of it


def random_texts(draw: random.Random, count: int, longest: int) -> list[str]:
    characters = ["a", "b", "A", "Cc", "d_1", "é", "ſ", "你", "好", "１", "\u0301", "𠀀", "𝔸", "²"]
    between = [" ", "\n", ".,", "", "\t-", "，"]
    return [
        "".join(draw.choice(characters) + draw.choice(between) for _ in range(draw.randrange(longest)))
        for _ in range(draw.randrange(1, count))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_the_overlaps_are_those_of_a_plain_search_even_if_all_hashes_collide(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    problems, training = random_texts(draw, 12, 30), random_texts(draw, 12, 60)
    size, common = draw.choice([1, 2, 3, 5]), draw.choice([1, 0.3, 0])
    row = ComposeFolder(tmp_path / "right").check(problems, training, size, common)
    expected = plain_search(problems, training, size, common)
    assert {name: run["share"] for name, run in row["overlapping"].items()} == pytest.approx(expected)
    assert row["too_short"] == sum(not grams(text, size) for text in problems)
    for name, run in row["overlapping"].items():
        words = run["words"].split(" ")
        assert size <= run["length"] == len(words)
        for text in (problems[int(name[1:])], training[int(run["document"][1:])]):
            assert tuple(words) in grams(text, len(words))
    monkeypatch.setattr(overlaps, "PRIMES", (0, 0))  # all n-grams have one hash
    assert ComposeFolder(tmp_path / "colliding").check(problems, training, size, common) == row


def test_words_that_many_problems_share_are_no_overlap_of_any(compose_folder):
    form = f"Answer briefly. {TEN}:"
    problems = [f"{form} what is {number}" for number in range(20)] + [
        "one two three four five six seven eight nine ten"
    ]
    training = [f"{form} what was it", problems[-1], f"brown {problems[3]} fox"]
    row = compose_folder.check(problems, training, common=0.05)
    assert set(row["overlapping"]) == {"p20", "p3"}
    assert row["overlapping"]["p3"]["words"].endswith("kappa what is 3")
    assert len(compose_folder.check(problems, training, common=1)["overlapping"]) == 21


@pytest.mark.slow
def test_a_line_of_ten_megabytes_is_searched(compose_folder):
    huge = "lorem ipsum " * 400_000 + "x" * 5_000_000 + f" {TEN}"
    row = compose_folder.check(
        [TEN, TEN[1:], "lorem " * 20, "ipsum lorem " * 20, "x" * 99, f"{'x' * 5_000_000} {TEN}"], [huge]
    )
    assert {name: run["length"] for name, run in row["overlapping"].items()} == {"p0": 10, "p3": 40, "p5": 11}
    assert all(len(run["words"]) <= 1000 for run in row["overlapping"].values())


def test_missing_or_damaged_data_is_a_one_line_error(compose_folder):
    compose_folder.check([TEN], [TEN])
    path = compose_folder.folder / "code/train.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match=r"train\.jsonl\.zst: \d+ bytes, its manifest says"):
        search(compose_folder.folder, ["code"], {"qa": {"datasets": ["chats"], "documents": 1}})


def test_only_the_settings_that_decide_the_prompts_rerun_it():
    code = {"benchmarks": [{"path": "a.jsonl", "prompt": "chat"}], "k": [1], "samples": 4, "temperature": 1}
    assert prompts_of({"code": Code.parse(code, "code")})["code"] == {"benchmarks": [{"path": "a.jsonl"}]}
    qa = {"datasets": ["d"], "documents": 5, "max_new_tokens": 2}
    assert prompts_of({"qa": Qa.parse(qa, "qa")})["qa"] == {"datasets": ["d"], "documents": 5}
    assert prompts_of({"keywords": Keywords.parse({"cases": "c.yaml"}, "k")}) == {"keywords": {"cases": "c.yaml"}}
