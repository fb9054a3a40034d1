"""Retrieved code: ranked as BM25's formula says, from training files, and scored as one text with what follows."""

import math
from collections import Counter

import numpy as np
import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.generation.retrieval import Search, blocks, words
from scripts.evaluation.suites.perplexity import Settings, perplexity

PIECES = [
    "def read_lines(path):\n    return path.read_text().splitlines()\n",
    "def write_lines(path, lines):\n    path.write_text('\\n'.join(lines))\n",
    "class HttpServer:\n    def serve(self): pass\n",
    "lines = read_lines(path)\nlines = read_lines(path)\n",
]


def by_formula(query: str) -> list[int]:
    """Pieces by BM25 in Lucene's form (k1 = 1.5, b = 0.75), the best first, without those that share no word."""
    counts = [Counter(words(piece)) for piece in PIECES]
    lengths = [sum(count.values()) for count in counts]
    scores = []
    for count, length in zip(counts, lengths, strict=True):
        score = 0.0
        for word in words(query):
            holding = sum(word in other for other in counts)
            rarity = math.log(1 + (len(PIECES) - holding + 0.5) / (holding + 0.5))
            weight = 1.5 * (0.25 + 0.75 * length / np.mean(lengths))
            score += rarity * count[word] / (weight + count[word])
        scores.append(score)
    return [place for place in np.argsort(scores)[::-1].tolist() if scores[place] > 0]


@pytest.mark.parametrize("query", ["read_lines", "path lines", "class Server: serve", "write the lines of a path"])
def test_pieces_are_ranked_as_the_formula_says(query):
    assert Search(PIECES).best(query, 4) == by_formula(query)


def test_nothing_is_found_for_nothing():
    assert Search(PIECES).best("", 3) == Search(PIECES).best("unheard", 3) == Search([]).best("read", 3) == []


TRAINING = [f"def name{number}(x):\n    return x * {number}  # {'yes ' * number}\n" for number in range(6)]

DOCUMENTS = [{"id": f"s/name{number}.py", "text": text} for number, text in enumerate(TRAINING)]


@pytest.fixture
def own(datasets, tmp_path):
    """The folder of datasets with a training split beside the test split of `code`."""
    examples = read_jsonl(datasets / "code/test.jsonl.zst")
    write_jsonl(tmp_path / "code/test.jsonl.zst", examples)
    write_jsonl(tmp_path / "code/train.jsonl.zst", DOCUMENTS)
    write_manifest(tmp_path / "code", ["test.jsonl.zst", "train.jsonl.zst"])
    return tmp_path


def test_a_file_is_cut_where_functions_begin_in_any_language_and_nothing_is_lost():
    functions = ["".join(f"func f{n}() {{\n" + "\tcall()\n" * n + "}\n\n") for n in (3, 9, 40)]
    text = "package x\n\n\f\n" + "".join(functions)
    numbered = list(blocks(text))
    found = [block for _, block in numbered]
    assert all(text.split("\n")[line - 1] == block.split("\n")[0] for line, block in numbered)
    assert "".join(found).split() == ("package x " + "".join(functions)).split()
    assert [block.split("\n")[0] for block in found] == ["package x", "func f9() {", "func f40() {", "\tcall()"]
    assert all(block.count("\n") <= 25 and block.endswith("\n\n") for block in found)
    assert list(blocks("")) == list(blocks("\n\n")) == []


def test_held_out_code_is_scored_after_retrieved_code_as_one_text(model_folder, own, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    from scripts.evaluation.generation.likelihood import even_windows
    from scripts.evaluation.generation.retrieval import Pieces
    from scripts.tokens.tokenization.encoder import Encoder

    settings = Settings(
        datasets=["code"],
        context=48,
        stride=16,
        retrieval={"datasets": ["code"], "pieces": 2},
    )
    perplexity(model_folder, own, settings, tmp_path / "out")
    items = {item["id"]: item for item in read_jsonl(tmp_path / "out/items.jsonl.zst")}
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float64).eval()
    encoder = Encoder(model_folder)
    pieces = Pieces(DOCUMENTS, 2)
    retrieved = 0
    for example in read_jsonl(own / "code/test.jsonl.zst"):
        encoded = encoder.encode([example])
        ids, alone, after = encoded.ids.astype(np.int64), 0.0, 0.0
        for start in range(0, len(ids), 16):
            end = min(start + 16, len(ids))
            before = ids[max(0, end - 48) : max(start, 1)]
            query = "\n".join(encoder.decode(before.tolist()).split("\n")[-8:])
            found = pieces.search.best(f"{example['id']}\n{query}", 2)
            retrieved += len(found)
            text = "".join(f"{TRAINING[place]}\n" for place in reversed(found))  # each is one piece
            prefix = encoder.encode([{"text": text}]).ids[:-1].tolist()
            for shown in ([], prefix):
                row = torch.tensor([[*shown, *before.tolist(), *ids[max(start, 1) : end].tolist()]])
                with torch.no_grad():
                    scores = torch.log_softmax(model(row).logits[0], -1)
                first = len(shown) + len(before)
                nll = -sum(scores[place - 1, row[0, place]].item() for place in range(first, row.shape[1]))
                if shown is prefix:
                    after += nll
                else:
                    alone += nll
        assert items[example["id"]]["nll"] == pytest.approx(alone, rel=1e-5)
        assert items[example["id"]]["variants"]["retrieval"]["nll"] == pytest.approx(after, rel=1e-5)
        assert len(even_windows(encoded, 48, 16)) == math.ceil(len(ids) / 16)
    assert retrieved > 10


def test_a_model_that_is_not_asked_about_is_scored_on_the_same_windows_without_retrieval(model_folder, own, tmp_path):
    # a context that is no multiple of the stride: `windows` would cut otherwise
    settings = Settings(datasets=["code"], context=40, stride=16, retrieval={"datasets": ["code"]})
    scored = []
    for plain in (False, True):
        perplexity(model_folder, own, settings, tmp_path / f"{plain}", plain)
        scored.append(list(read_jsonl(tmp_path / f"{plain}/items.jsonl.zst")))
    for both, alone in zip(*scored, strict=True):
        assert alone["nll"] == pytest.approx(both["nll"], rel=1e-9)
        assert both.keys() - alone.keys() == {"variants"}


def test_code_is_retrieved_only_for_datasets_of_code_that_are_scored():
    from scripts.evaluation.suites.perplexity import check
    from tests.evaluation.synthetic import make_experiment

    experiment = make_experiment([])
    for name, line in {"nowhere": "nowhere", "instruct": "instruct is not of kind `code`"}.items():
        settings = Settings(datasets=["code", "instruct"], retrieval={"datasets": [name]})
        with pytest.raises(UserError, match=rf"perplexity.retrieval.datasets: .*{line}"):
            check(settings, experiment, "evaluation.perplexity")
