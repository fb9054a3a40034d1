"""stagecraft accept: a change of code alone is accepted, with its reason; any other change is refused."""

import json
import subprocess

from tests import forked

EXTENSION = 'return name[dot:] if dot > 0 else ""'


def accept(clone, rule):
    words = [rule, "--experiment", "config/tiny.yaml", "--reason", "a cleaner line"]
    line = [forked.python(), "-m", "scripts.cli", "accept", *words]
    return subprocess.run(line, cwd=clone.root, capture_output=True, text=True, check=False)


def test_jobs_whose_code_alone_changed_are_kept_with_the_reason_and_others_are_refused(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    clone.replace("scripts/corpus/filter.py", EXTENSION, 'return "" if dot <= 0 else name[dot:]')
    assert {"filter alpha", "filter beta", "train sft"} <= clone.jobs()
    done = accept(clone, "filter")
    assert done.returncode == 0, done.stdout + done.stderr
    assert clone.jobs() == {"gate", "page", "verdict"}  # which show it
    clone.snakemake("results/eval.json")
    kept = json.loads((clone.root / "results/eval.json").read_text())["inputs"]["accepted"]
    assert [[entry["reason"] for entry in entries] for entries in kept.values()] == [["a cleaner line"]] * 2
    assert (clone.root / "results/report.html").read_text().count("a cleaner line") == 2

    same = accept(clone, "filter.alpha")
    assert same.returncode == 1 and "filter alpha: its code did not change: nothing to accept" in same.stdout

    clone.replace("scripts/corpus/filter.py", "return raw, text", "return raw, text.strip()")
    clone.experiment(lambda config: config["corpus"].update(filter={"min_lines": 3}))
    both = accept(clone, "filter.alpha")
    assert both.returncode == 1 and "Traceback" not in both.stderr
    assert "filter alpha: more than code changed: min_lines" in both.stdout
    assert {"filter alpha", "train sft"} <= clone.jobs()

    documents = clone.root / "results/corpus/split/train.jsonl.zst"
    documents.write_bytes(documents.read_bytes() + b"x")
    damaged = accept(clone, "split")
    assert damaged.returncode == 1 and "train.jsonl.zst has another content" in damaged.stdout
    unknown = accept(clone, "nothing")
    assert unknown.returncode == 1 and unknown.stderr.startswith(
        "error: nothing: no such rule, and no job as `train.sft`; rules: base"
    )
