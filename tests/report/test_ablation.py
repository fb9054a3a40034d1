"""Rule ablation: planted effects, arms that do nothing, and what the table, the page and the command say of them."""

import json
import shutil

import numpy as np
import pytest

from scripts.common.errors import UserError
from scripts.experiment.settings.ablate import ArmScores
from scripts.report.ablation import ablation, compare_arms, give_verdicts, picture
from scripts.report.content.arms_table import lines
from scripts.report.content.drawing import save
from scripts.report.page import markdown, render
from tests.evaluation.synthetic import dump, make_items, manifest, model_folder, sha, write_model
from tests.report.conftest import HOSTILE, Page

ARMS = {"nothing": 0.0, "better": -0.25, "worse": 0.3}
SEEDS = 4
ABOUT = {"suite": "qa", "dataset": "d", "metric": "exact_match", "better": "above", "documents": 60}


@pytest.fixture(scope="module")
def arms(results_root, tmp_path_factory):
    """A tree in which each arm moves every document's nats per byte by ARMS, and seeds and chance a little."""
    root = shutil.copytree(results_root.parent, tmp_path_factory.mktemp("arms"), dirs_exist_ok=True)
    generator, models = np.random.default_rng(1), {}
    chance = generator.normal(0, 0.01, (SEEDS, len(ARMS) + 1))
    for index, (arm, effect) in enumerate({"reference": 0.0, **ARMS}.items()):
        models[arm] = [f"sft.{arm}.s{number}" for number in range(SEEDS)]
        for number, model in enumerate(models[arm]):
            items = make_items(model, 10, 1.1 + effect + chance[number, index])
            for item in items:
                item["nll"] *= 1 + generator.normal(0, 0.01)
            manifest(model_folder(root, model), ["model.safetensors"])
            write_model(root, model, items, {"code": sha("code"), "instruct": sha("instruct")})
    about = {"metrics": None, "k": [], "confidence": 0.95, "unit": "file"}
    settings = ArmScores(models=models, datasets={"perplexity": ["code"]}, **about)
    return root / "results", settings


@pytest.fixture
def with_arms(arms, tmp_path):
    """The same, for a test that changes it."""
    results, settings = arms
    return shutil.copytree(results, tmp_path / "results"), settings


def test_planted_effects_are_found_and_arms_without_an_effect_are_not_flagged(arms):
    rows = {row.arm: row for row in ablation(*arms)}
    assert list(rows) == list(ARMS)
    assert rows["better"].verdict == "helped" and rows["worse"].verdict == "hurt"
    assert rows["nothing"].verdict.startswith("cannot tell: needs")
    for arm, effect in ARMS.items():
        assert rows[arm].difference == pytest.approx(effect / 3 / np.log(2), abs=0.03)  # three bytes a token
        assert rows[arm].value - rows[arm].reference == pytest.approx(rows[arm].difference)
    assert rows["better"].metric == "bits_per_byte" and rows["better"].documents == 30


def test_p_is_corrected_for_all_rows_of_the_table(arms):
    results, settings = arms
    rows = ablation(results, settings.model_copy(update={"metrics": ["bits_per_byte"]}))
    both = ablation(results, settings.model_copy(update={"metrics": ["bits_per_byte", "perplexity"]}))
    smallest = min(row.p for row in rows)
    assert min(row.holm for row in rows) == pytest.approx(3 * smallest)
    assert len(both) == 6 and min(row.holm for row in both) == pytest.approx(6 * min(row.p for row in both))


def test_scores_of_other_documents_are_refused(with_arms):
    results, settings = with_arms
    path = results / "evaluation/perplexity/sft.worse.s1/scores.json"
    scores = json.loads(path.read_text())
    scores["data"]["code"] = sha("another")
    dump(path, scores)
    with pytest.raises(UserError, match="scored on test data"):
        ablation(results, settings)


def verdicts(*gaps, metrics=ABOUT):
    """The verdicts on arms whose differences from the experiment are these."""
    compared = []
    for number, gap in enumerate(gaps):
        seeds = len(gap)
        models = {"reference": [f"r{seed}" for seed in range(seeds)], f"arm{number}": [f"a{s}" for s in range(seeds)]}
        values = {f"r{seed}": np.zeros(gap.shape[1]) for seed in range(seeds)}
        values |= {f"a{seed}": gap[seed] for seed in range(seeds)}
        compared += compare_arms(values, gap.shape[1], models, 0.95, metrics)
    return give_verdicts(compared, 0.95)


def test_an_undecided_arm_says_what_is_missing():
    generator = np.random.default_rng(2)
    few = np.zeros((3, 50))
    few[:, :3] = 1
    seeds = 0.5 + np.array([[-0.6], [0.1], [0.5]]) + generator.normal(0, 0.1, (3, 50))
    documents = generator.normal(0, 3, (1, 12)) + generator.normal(0, 0.01, (3, 12))
    documents += 0.1 - documents.mean()
    verdict_lines = [row.verdict for row in verdicts(np.zeros((3, 50)), few, seeds, documents)]
    assert verdict_lines[0] == "no difference on any document"
    assert verdict_lines[1] == "cannot tell: 3 documents differ, 6 are needed"
    assert verdict_lines[2].startswith("cannot tell: needs about ") and "more seed" in verdict_lines[2]
    assert verdict_lines[3] == "cannot tell: needs more documents"


def test_more_is_better_where_the_metric_says_so():
    up = np.full((4, 30), 0.3) + np.random.default_rng(3).normal(0, 0.02, (4, 30))
    assert [row.verdict for row in verdicts(up, -up)] == ["helped", "hurt"]
    assert [row.verdict for row in verdicts(up, metrics={**ABOUT, "better": "below"})] == ["hurt"]


def test_an_effect_that_one_arm_alone_would_show_is_not_claimed_among_arms_without_effect():
    generator = np.random.default_rng(5)
    nothing = [generator.normal(0, 1, (4, 40)) for _ in range(5)]
    effect = generator.normal(0, 1, (4, 40))
    effect += 0.5 - effect.mean()
    (alone,) = verdicts(effect)
    among = verdicts(effect, *nothing)[0]
    assert 0.01 < alone.p == among.p < 0.05 < among.holm
    assert alone.verdict == "helped" and among.verdict.startswith("cannot tell")


def test_at_most_five_in_a_hundred_families_of_arms_without_an_effect_have_a_verdict(monkeypatch):
    # statsmodels collects garbage in each of the 120 calls, of all that the tests have loaded
    monkeypatch.setattr("gc.collect", lambda: 0)
    generator, flagged, families = np.random.default_rng(4), 0, 120
    for _ in range(families):
        right = (generator.random((9, 60)) + generator.normal(0, 0.05, (9, 1)) + generator.normal(0, 0.3, 60)) > 0.5
        names = [f"m{number}" for number in range(9)]
        values = dict(zip(names, right.astype(float), strict=True))
        models = {"reference": names[:3], "a": names[3:6], "b": names[6:]}
        rows = give_verdicts(compare_arms(values, 60, models, 0.95, ABOUT), 0.95)
        flagged += any(row.verdict in ("helped", "hurt") for row in rows)
    assert flagged <= 0.05 * families + 6


def test_the_page_shows_table_and_picture_and_hostile_names_as_text(with_arms):
    results, settings = with_arms
    rows = [row.__dict__ for row in ablation(results, settings)]
    rows[0]["arm"] = HOSTILE
    dump(results / "report/ablation/ablation.json", {"confidence": 0.95, "rows": rows})
    save(picture, ablation(results, settings), results / "report/ablation/ablation.svg")
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    evaluation["inputs"]["experiment"]["ablate"] = {"arms": {"better": {}}}
    dump(path, evaluation)
    html = render(results)
    page = Page(html)
    text = " ".join(" ".join(page.text).split())
    assert "<script" not in html and HOSTILE in text and len(page.ids) == len(set(page.ids))
    assert "4 seeds, each arm against the experiment itself" in text and "helped" in text and "hurt" in text
    assert page.tags.count("svg") == 5
    assert "| helped |" in markdown(results) and "<script" not in markdown(results)
    assert any(line.startswith("bits per byte, code  better") for line in lines(rows, 0.95))
    dump(results / "report/ablation/ablation.json", {})
    with pytest.raises(UserError, match="not written by rule ablation"):
        render(results)
