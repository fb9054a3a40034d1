"""Rules signatures and deduplicate: equal and similar documents, against exact Jaccard."""

import hashlib
import random
import re
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.deduplicate import remove_duplicates
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.corpus.signatures import signatures
from scripts.corpus.similarity.minhash import alike, bands_of, coefficients, sequence_set, sketch
from scripts.corpus.split import named_split
from scripts.experiment.settings.corpus import Split


def document(source, path, text, language="python"):
    digest = hashlib.sha256(text.encode()).hexdigest()
    known = {"text": text, "path": path, "source": source, "language": language}
    return known | {"sha256": digest}


def write_filtered(folder, texts):
    """texts: {source: {path: text}}, as corpus.filter leaves them."""
    for source, files in texts.items():
        with funnel(folder / source) as result:
            for path, text in sorted(files.items()):
                result.keep(document(source, path, text), len(text.encode()))


def deduplicated(folder, sources, out, shards=None):
    """(manifest, documents, rejects), with the signatures in the given shards, by default one."""
    signed = []
    for number, members in enumerate(shards or [sources]):
        signed.append(out.parent / f"{out.name}-signatures/{number}")
        signatures(folder, members, signed[-1])
    with funnel(out) as result:
        remove_duplicates(folder, sources, signed, result, out)
    return read_manifest(out), list(read_jsonl(out / DOCUMENTS)), list(read_jsonl(out / REJECTS))


def names(records):
    return [f"{record['source']}/{record['path']}" for record in records]


def test_of_equal_texts_the_first_source_then_the_first_path_stays(tmp_path):
    write_filtered(tmp_path, {"b": {"x.py": "one", "z.py": "two"}, "a": {"q.py": "one", "p.py": "one", "r.py": "3é"}})
    manifest, documents, rejects = deduplicated(tmp_path, ["b", "a"], tmp_path / "out")
    assert names(documents) == ["b/x.py", "b/z.py", "a/r.py"]
    assert [(name, r["reason"], r["detail"]) for name, r in zip(names(rejects), rejects, strict=True)] == [
        ("a/p.py", "duplicate", "b/x.py"),
        ("a/q.py", "duplicate", "b/x.py"),
    ]
    del manifest["files"]
    counts = {"kept": 3, "bytes": 9, "dropped": {"duplicate": 2}}
    assert manifest.pop("dropped_bytes") == {"duplicate": 6}
    assert manifest == {"seen": 5, "kept": 3, "dropped": {"duplicate": 2}, "languages": {"python": counts}}
    _, documents, rejects = deduplicated(tmp_path, ["a", "b"], tmp_path / "other")
    assert names(documents) == ["a/p.py", "a/r.py", "b/z.py"] and names(rejects) == ["a/q.py", "b/x.py"]


def test_documents_pass_unchanged_and_no_text_is_lost_or_left_twice(tmp_path):
    rng = random.Random(0)
    texts = {s: {f"{i:03}.py": rng.choice("αβγδ𝟙\n") * rng.randint(0, 40) for i in range(200)} for s in "cab"}
    write_filtered(tmp_path, texts)
    manifest, documents, rejects = deduplicated(tmp_path, ["c", "a", "b"], tmp_path / "out")
    originals = [
        document(source, path, text) for source, files in texts.items() for path, text in sorted(files.items())
    ]
    expected = list({record["text"]: record for record in reversed(originals)}.values())[::-1]
    assert Counter(record["text"] for record in documents) == Counter({record["text"] for record in originals})
    assert sorted(documents, key=str) == sorted(expected, key=str)
    assert manifest["seen"] == len(originals) == len(documents) + len(rejects)
    first = {record["text"]: name for name, record in zip(names(documents), documents, strict=True)}
    assert all(reject["detail"] == first[texts[reject["source"]][reject["path"]]] for reject in rejects)


def mutated(words: list[str], changes: int, rng: random.Random) -> list[str]:
    """A copy of `words` with this many of them replaced, left out or put in."""
    words = list(words)
    for _ in range(changes):
        at, kind = rng.randrange(len(words)), rng.random()
        words[at : at + (kind < 0.7)] = [f"w{rng.randrange(9999)}"] if kind < 0.4 or kind >= 0.7 else []
    return words


def families(count: int, rng: random.Random) -> dict[str, str]:
    """Texts by path: families of copies with more and more changes, around the threshold and on both sides of it."""
    texts = {}
    for family in range(count):
        words = rng.choices(["if", "x", "=", "self.value", "return", "(a, b)", "数据"], k=rng.randint(40, 400))
        words = [f"{word}{rng.randrange(30)}" if rng.random() < 0.5 else word for word in words]
        for copy in range(rng.randint(1, 6)):
            changed = mutated(words, copy * len(words) // 70, rng)
            texts[f"{family:03}/{rng.randrange(10**6)}-{copy}.py"] = rng.choice([" ", "\n"]).join(changed)
    return texts


def exactly_similar(texts: dict[str, str], threshold: float) -> dict[frozenset, float]:
    """All pairs at least so similar, by Python's sets of tuples of words."""
    sets = {}
    for name, text in texts.items():
        words = re.findall(r"[A-Za-z0-9_\u0080-\U0010ffff]+", text)
        sets[name] = {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))}
    similar = {}
    for first, second in combinations(sets, 2):
        small, large = sorted((len(sets[first]), len(sets[second])))
        if small < threshold * large:  # even if all of the smaller one is common
            continue
        common = len(sets[first] & sets[second])
        if common / (len(sets[first]) + len(sets[second]) - common) >= threshold:
            similar[frozenset((first, second))] = common
    return similar


def test_what_is_removed_is_similar_to_what_it_names_by_exact_jaccard_over_all_pairs(tmp_path):
    """No document is removed without a similar one that is kept; of the similar pairs at most 1% are left."""
    texts = families(110, random.Random(3))
    sources = [{name: text for name, text in texts.items() if hash_of(name) % 3 == n} for n in range(3)]
    write_filtered(tmp_path, dict(zip("cab", sources, strict=True)))
    name_of = {path: f"{source}/{path}" for source, files in zip("cab", sources, strict=True) for path in files}
    manifest, documents, rejects = deduplicated(tmp_path, ["c", "a", "b"], tmp_path / "out", shards=[["b", "c"], ["a"]])

    pairs = exactly_similar({name_of[path]: text for path, text in texts.items()}, 0.7)
    kept_for = dict(zip(names(rejects), (reject["detail"] for reject in rejects), strict=True))
    assert len(pairs) > 300 and manifest["dropped"]["near_duplicate"] > 190
    assert all(frozenset(pair) in pairs for pair in kept_for.items())
    assert not set(kept_for.values()) & set(kept_for)
    ordered = [name for s in "cab" for name in sorted(name_of.values()) if name[0] == s]
    order = {name: number for number, name in enumerate(ordered)}
    assert all(order[kept] < order[name] for name, kept in kept_for.items())

    # no pair is left, so none can be in two splits; before, some were
    left = set(names(documents))
    assert sum(pair <= left for pair in pairs) <= 0.01 * len(pairs)
    split = {name: named_split(name, Split(validation=0.2, test=0.2)) for name in order}
    assert any(len({split[name] for name in pair}) > 1 for pair in pairs)
    assert not any(len({split[name] for name in pair & left}) > 1 for pair in pairs)


def hash_of(name):
    return hashlib.sha256(name.encode()).digest()[0]


def test_shards_and_batches_change_nothing(tmp_path, monkeypatch):
    texts = families(40, random.Random(4))
    halves = {"a": dict(list(texts.items())[::2]), "b": dict(list(texts.items())[1::2])}
    halves["b"]["same.py"] = next(iter(halves["a"].values()))
    write_filtered(tmp_path, halves)
    one_shard = deduplicated(tmp_path, ["a", "b"], tmp_path / "one")
    monkeypatch.setattr("scripts.corpus.signatures.BATCH", 7)
    assert deduplicated(tmp_path, ["a", "b"], tmp_path / "two", shards=[["b"], ["a"]]) == one_shard
    assert set(one_shard[0]["dropped"]) == {"duplicate", "near_duplicate"}


@pytest.mark.parametrize("text", ["", "\n \t", "(){}[];", "one", "a b c d", "é", "中文", "\x00", "x" * 10_000])
def test_texts_of_few_or_no_words_are_similar_only_to_the_same_words(tmp_path, text):
    """Texts without any word are not all duplicates of each other."""
    files = {"1.py": text, "2.py": f"  {text}\n", "3.py": f"{text}  other", "4.py": ";;;", "5.py": "..."}
    write_filtered(tmp_path, {"a": files})
    _, documents, rejects = deduplicated(tmp_path, ["a"], tmp_path / "out")
    same = bool(re.search(r"\w", text))
    assert [(reject["path"], reject["detail"]) for reject in rejects] == [("2.py", "a/1.py")] * same
    assert len(documents) == 5 - same


def test_so_few_bands_are_used_that_the_recall_holds_at_the_threshold():
    """The closed form, and what random sets of a known similarity show."""
    assert bands_of(256, 0.7, 0.99) == (42, 6)
    assert bands_of(128, 0.8, 0.99) == (21, 6)
    bands, values = bands_of(64, 0.5, 0.9)
    factors, summands = coefficients(64)
    hits = 0
    for number in range(300):
        rng = random.Random(number)
        common, *others = ([f"{k}{rng.random()}" for _ in range(100)] for k in "xyz")
        both = [" ".join(common + rest[:50]) for rest in others]  # 100 words of 200 in common: half, or near it
        text, offsets = "".join(both).encode(), np.cumsum([0, *map(len, both)])
        first, second = sketch(np.frombuffer(text, np.uint8), offsets, 1, factors, summands, bands, values)
        hits += (first == second).any()
    assert hits / 300 > 0.85


def test_a_pair_that_chance_puts_into_buckets_is_compared_exactly(tmp_path):
    """Of 200 different words two texts share 140, of 201 two others 139: 0.70 is similar, 0.69 is not."""
    for start, similar in ((30, True), (31, False)):
        texts = [" ".join(f"w{n}" for n in range(begin, begin + 170)) for begin in (0, start)]
        sets = [sequence_set(np.frombuffer(text.encode(), np.uint8), 1) for text in texts]
        sequences = np.concatenate(sets)
        assert alike(sequences, np.array([0, 170]), np.array([170, 340]), 0.7) == similar


def test_signatures_of_other_documents_are_refused(tmp_path):
    write_filtered(tmp_path, {"a": {"x.py": "one"}, "b": {"x.py": "two"}})
    with pytest.raises(UserError, match=r"b/documents.jsonl.zst: no signatures of it; run"):
        deduplicated(tmp_path, ["a", "b"], tmp_path / "out", shards=[["a"]])
    with pytest.raises(UserError, match="signatures of b, which --sources does not name"):
        deduplicated(tmp_path, ["a"], tmp_path / "other", shards=[["a", "b"]])
    signatures(tmp_path, ["a"], tmp_path / "signed")
    write_filtered(tmp_path, {"a": {"x.py": "three"}})
    with funnel(tmp_path / "third") as result, pytest.raises(UserError, match="no signatures of it"):
        remove_duplicates(tmp_path, ["a"], [tmp_path / "signed"], result, tmp_path)


@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
def test_documents_that_are_not_what_their_manifest_says_are_refused(tmp_path, damage):
    write_filtered(tmp_path, {"a": {"x.py": "one"}, "b": {"x.py": "two"}})
    path = tmp_path / "b" / DOCUMENTS
    content = path.read_bytes()
    path.write_bytes(content[:-5] if damage == "truncated" else content[:-1] + bytes([content[-1] ^ 1]))
    if damage == "missing":
        path.unlink()
    with pytest.raises(UserError, match=str(path)):
        deduplicated(tmp_path, ["a", "b"], tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_of_a_chain_of_similar_texts_no_far_end_is_removed(tmp_path):
    """Each of 60 texts is similar to its neighbours, not to those two away: every second one stays."""
    words = [f"w{number}" for number in range(60 * 20 + 200)]
    chain = {f"{at:02}.py": " ".join(words[at * 20 : at * 20 + 140]) for at in range(60)}
    halves = {"a": dict(list(chain.items())[:30]), "b": dict(list(chain.items())[30:])}
    write_filtered(tmp_path / "texts", halves)
    for name, shards in (("one", [["a", "b"]]), ("two", [["b"], ["a"]])):
        _, documents, rejects = deduplicated(tmp_path / "texts", ["a", "b"], tmp_path / name, shards=shards)
        assert [document["path"] for document in documents] == [f"{at:02}.py" for at in range(0, 60, 2)]
        assert [reject["detail"][2:4] for reject in rejects] == [f"{at:02}" for at in range(0, 60, 2)]
