"""The quality score: by hand from its parts, good code above bad, thresholds, means, hostile text."""

import sysconfig
from pathlib import Path

import pytest

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.corpus.heuristics.quality_score import WEIGHTS, origin_of, quality_of
from scripts.experiment.settings.filter import Filter, Quality
from scripts.report.content.funnel import mean_scores
from tests.corpus.archives import GOOD, write_archive

CODE = GOOD.decode()
DOCUMENTED = CODE.replace("):\n", '):\n    """The sum of the argument and a number."""\n')


def test_the_score_is_the_formula_over_its_parts():
    scores = quality_of(DOCUMENTED, "a.py", "python")
    assert scores == {"score": pytest.approx(10 * sum(WEIGHTS[name] * scores[name] for name in WEIGHTS), abs=0.03), **{
        name: scores[name] for name in WEIGHTS
    }}  # fmt: skip
    assert abs(sum(WEIGHTS.values()) - 1) < 1e-9
    # 9 definitions in 37 lines, docstrings of about half of the bytes; 18 + 1 different lines of 27
    assert (scores["parse"], scores["structure"], scores["documentation"], scores["origin"]) == (1, 1, 1, 1)
    assert scores["repetition"] == round((19 - 1) / 27 / 0.8, 2)


@pytest.mark.parametrize(
    ("worse", "part"),
    [
        (CODE, "documentation"),
        ("# only prose here, and nothing else at all\n" * 3 + "# and more\n", "documentation"),
        ("# Licensed under the MIT license, copyright me\n" + CODE, "documentation"),
        (DOCUMENTED + "def (((:\n  ]]] = = =\n" * 9, "parse"),
        (DOCUMENTED + "same = line\n" * 200, "repetition"),
        (DOCUMENTED + "".join(f"value_{n} = {n * 7}\n" for n in range(900)), "structure"),
    ],
)
def test_worse_code_has_a_lower_part_and_a_lower_score(worse, part):
    good, bad = (quality_of(text, "a.py", "python") for text in (DOCUMENTED, worse))
    assert bad[part] < good[part] and bad["score"] < good["score"] and 0 <= bad["score"] <= 10


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("src/a.py", 1), ("latest/contest.py", 1), ("src/distance/a.c", 1), ("src/attest.go", 1), ("general/a.go", 1),
        ("tests/a.py", 0.5), ("pkg/a_test.go", 0.5), ("src/test/java/ATest.java", 0.5), ("test_a.py", 0.5),
        ("vendor/x/a.go", 0), ("third_party/a.c", 0), ("a/node_modules/b.c", 0), ("api/a_pb2.py", 0),
        ("api/a.pb.go", 0), ("k8s/zz_generated.deepcopy.go", 0), ("x/generated/a.java", 0),
    ],
)  # fmt: skip
def test_tests_vendored_and_generated_files_are_known_by_their_paths(path, origin):
    assert origin_of(path) == origin


@pytest.mark.parametrize("language", ["python", "java", "go", "rust", "c", "cpp"])
@pytest.mark.parametrize("text", ["", "\n" * 99, "(" * 5000, "\0" * 50, "é" * 999, "/*" * 999, "{}" * 5000, '"' * 999])
def test_hostile_texts_have_a_score(text, language):
    quality = quality_of(text, "a.h" if language == "c" else "a", language)
    assert all(0 <= value <= (10 if name == "score" else 1) for name, value in quality.items())


def test_well_kept_code_scores_high():
    library = Path(sysconfig.get_paths()["stdlib"])
    scores = [
        quality_of((library / name).read_text(), name, "python")["score"]
        for name in ("heapq.py", "bisect.py", "abc.py")
    ]
    assert min(scores) > 8.5


def test_low_scores_are_dropped_with_their_parts_and_means_are_in_manifest_and_report(tmp_path):
    files = {
        "good.py": DOCUMENTED.encode(),
        "bad.py": b"value = [((first,]\nsecond == = third ]\n" * 60,
        "gen/plain.py": GOOD,
    }
    archive = write_archive(tmp_path, "demo", files)
    made = {}
    for lowest in (0, 6):
        with funnel(tmp_path / str(lowest)) as result:
            filter_archive(archive, "demo", Filter(quality=Quality(min_score=lowest)), result)
        made[lowest] = read_manifest(tmp_path / str(lowest)), list(read_jsonl(tmp_path / str(lowest) / DOCUMENTS))
    manifest, documents = made[0]
    scores = {document["path"]: document["quality"]["score"] for document in documents}
    assert scores["bad.py"] < 4 < scores["gen/plain.py"] < 8 < scores["good.py"]
    assert manifest["quality"]["documents"] == 3
    assert manifest["quality"]["score"] == pytest.approx(sum(scores.values()) / 3, abs=0.01)
    python = manifest["quality"]["languages"]["python"]
    assert python["documents"] == 3 and python["score"] == manifest["quality"]["score"] and set(WEIGHTS) < set(python)
    manifest, documents = made[6]
    (reject,) = [record for record in read_jsonl(tmp_path / "6" / REJECTS) if record["path"] == "bad.py"]
    assert reject["reason"] == "low_quality" and reject["detail"].startswith("score ") and "parse 0" in reject["detail"]
    assert manifest["seen"] == 3 == len(documents) + manifest["dropped"]["low_quality"]
    rows = mean_scores({"a": made[0][0], "b": made[6][0], "c": {"kept": 0}})
    assert [row[:2] for row in rows] == [("all", "all"), ("language", "python"), ("source", "a"), ("source", "b")]
    everything = [*scores.values(), *(document["quality"]["score"] for document in documents)]
    assert rows[0][2] == len(everything) and rows[0][3] == pytest.approx(sum(everything) / len(everything), abs=0.02)
    assert mean_scores({"c": {"kept": 0}}) == []
