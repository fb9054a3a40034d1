"""scripts/experiment/replays: a sample with the code of two commits, what differs, and the evidence that is kept."""

import json
import subprocess

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.experiment.replays.evidence import Evidence, add_evidence, holding
from scripts.experiment.replays.replay import comparable, differing, digest_of, replay, worktree
from scripts.experiment.replays.samples import ITEMS, STEPS, Sample, sample_of

TOOL = "import json, pathlib\npathlib.Path('out').mkdir(exist_ok=True)\n"
TOOL += "text = pathlib.Path('results/in.txt').read_text()\n"
TOOL += "open('out/made.json', 'w').write(json.dumps({'text': text.upper(), 'seconds': SECONDS}))\n"
SAMPLE = Sample("python -m scripts.tool", ["results/in.txt"], ["out/made.json"], True, "all", "nothing")


@pytest.fixture
def repository(tmp_path):
    """(folder, commit(source of the tool) → commit)."""
    root = tmp_path / "repository"
    (root / "scripts").mkdir(parents=True)
    (root / "config").mkdir()
    (root / "results").mkdir()
    (root / "results/in.txt").write_text("text")
    (root / ".gitignore").write_text("results\n")

    def git(*words):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(source):
        (root / "scripts/tool.py").write_text(source)
        git("add", ".")
        git("commit", "-qm", "one", "--allow-empty")
        return git("rev-parse", "HEAD")

    git("init", "-q")
    return root, commit


def made(root, commit, sample=SAMPLE):
    with worktree(commit, root) as folder:
        return replay(sample, folder, root)


def test_two_commits_are_equal_but_for_the_time_they_took_or_the_difference_is_named(repository):
    root, commit = repository
    first, slower = (commit(TOOL.replace("SECONDS", seconds)) for seconds in ("1.5", "2.5"))
    third = commit(TOOL.replace("SECONDS", "1").replace("text.upper()", "text.upper() + '!'"))
    broken = commit("raise SystemExit('error: no such thing')")
    assert differing(made(root, first), made(root, slower)) == []
    assert digest_of(made(root, first)) == digest_of(made(root, slower))
    assert differing(made(root, first), made(root, third)) == ["out/made.json: text TEXT → TEXT!"]
    with pytest.raises(UserError, match="failed: error: no such thing"):
        made(root, broken)
    assert not (root / "out").exists()
    worktrees = subprocess.run(["git", "worktree", "list"], cwd=root, capture_output=True, text=True, check=True)
    assert worktrees.stdout.count("\n") == 1


def test_a_missing_commit_is_a_one_line_error(repository):
    root, commit = repository
    commit(TOOL)
    with pytest.raises(UserError, match="git worktree: fatal: "), worktree("0" * 40, root):
        pass


def test_lines_of_a_log_are_compared_without_figures_of_the_machine(tmp_path):
    line = {"step": 1, "loss": 2.5, "tokens_per_second": 3.0, "memory_resident_gib": 1.0, "mfu": None}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert comparable(tmp_path / "metrics.jsonl") == {"0": {"step": 1, "loss": 2.5}}


SETTINGS = {"epochs": 3, "learning_rate": 1e-3, "warmup_steps": 100, "keep_best": True, "eval_steps": 500}


def test_a_stage_is_sampled_with_all_that_its_settings_switch_on():
    text = json.dumps(SETTINGS, sort_keys=True)
    command = f"python -m x --settings '{text}' --log-steps 10 --save-steps 100 2>&1 | tee log"
    sample = sample_of("train", command, [], ["o/manifest.json", "o/environment.json"], SETTINGS)
    few = json.loads(sample.command.split("'")[1])
    assert few == {"steps": STEPS, "learning_rate": 1e-3, "warmup_steps": 2, "keep_best": True, "eval_steps": 4}
    assert "--log-steps 1 --save-steps 4 " in sample.command
    assert sample.outputs == ["o/manifest.json"] and not sample.whole_job and "resuming" in sample.unseen


def test_a_suite_is_sampled_by_its_first_items(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.jsonl").write_text("".join(f'{{"task_id": {number}}}\n' for number in range(50)))
    settings = {"benchmarks": [{"path": "b.jsonl"}], "k": [1]}
    sample = sample_of("code", f"x '{json.dumps(settings, sort_keys=True)}'", ["b.jsonl"], ["scores.json"], settings)
    assert sample.files["b.jsonl"].count(b"\n") == ITEMS
    settings = {"documents": 200, "stride": 5}
    sample = sample_of("qa", f"x '{json.dumps(settings, sort_keys=True)}'", [], ["scores.json"], settings)
    assert '"documents": 20,' in sample.command
    with pytest.raises(UserError, match="latency: no rule that is replayed"):
        sample_of("latency", "x", [], [], {})


def entry(old, new, content):
    facts = {"job": "filter a", "reason": "r", "date": "2026-11-22", "old_commit": "1", "new_commit": "2"}
    more = {"changed": [], "sample": "all", "unseen": "none", "compared": {}, "versions": {}}
    return Evidence(old=old, new=new, content=content, **facts, **more)


def test_evidence_holds_as_long_as_it_leads_to_todays_code_and_the_content_stays(tmp_path):
    from scripts.experiment.replays.evidence import content_of

    (tmp_path / "manifest.json").write_text("{}")
    content = content_of(tmp_path)
    add_evidence(tmp_path, entry("a", "b", content))
    add_evidence(tmp_path, entry("b", "c", content))
    assert [record.old for record in holding(tmp_path, "c")] == ["a", "b"]
    assert holding(tmp_path, "d") == []  # made again with other code since
    add_evidence(tmp_path, entry("x", "y", content))
    assert [record.old for record in holding(tmp_path, "y")] == ["x"]
    (tmp_path / "manifest.json").write_text('{"other": 1}')
    assert holding(tmp_path, "y") == []
    (tmp_path / "accepted.json").write_text('{"accepted": [{"job": "filter a"}]}')
    with pytest.raises(UserError, match="not written by `stagecraft accept`"):
        holding(tmp_path, "y")


def test_tasks_of_a_suite_are_the_first_of_each_size_or_those_that_the_settings_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks = [{"id": f"{size}{n}", "size": size} for size in ("line", "block") for n in range(30)]
    write_jsonl(tmp_path / "tasks.jsonl.zst", tasks)
    command = "python -m scripts.evaluation.completion --tasks tasks.jsonl.zst --out out"

    def kept(settings: dict) -> list[str]:
        content = sample_of("completion", command, [], ["out/scores.json"], settings).files["tasks.jsonl.zst"]
        (tmp_path / "kept.jsonl.zst").write_bytes(content)
        return [task["id"] for task in read_jsonl(tmp_path / "kept.jsonl.zst")]

    assert kept({}) == [f"{size}{n}" for size in ("line", "block") for n in range(20)]
    assert kept({"ids": ["line29", "block0"]}) == ["line29", "block0"]


def test_lm_eval_is_replayed_with_a_limit_unless_items_are_named():
    import json

    for settings, limited in (({"tasks": ["t"]}, True), ({"ids": {"t": [7]}, "tasks": ["t"]}, False)):
        command = f"python -m scripts.evaluation.lm_eval --settings '{json.dumps(settings, sort_keys=True)}'"
        sample = sample_of("lm_eval", command, [], ["out/scores.json"], settings)
        assert ('"limit": 20' in sample.command) == limited
