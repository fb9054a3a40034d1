"""stagecraft accept on the tiny experiment: a harmless edit is accepted; uncommitted and harmful edits are refused."""

import subprocess

from tests import forked

EXTENSION = 'return name[dot:] if dot > 0 else ""'


def git(clone, *words):
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *who, *words], cwd=clone.root, check=True, capture_output=True)


def accept(clone, rule):
    words = [rule, "--experiment", "config/tiny.yaml", "--reason", "a cleaner line"]
    line = [forked.python(), "-m", "scripts.cli", "accept", *words]
    return subprocess.run(line, cwd=clone.root, capture_output=True, text=True, check=False)


def test_an_edit_is_accepted_where_the_replay_is_equal_and_refused_where_it_is_not(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    git(clone, "init", "-q")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "one")
    clone.snakemake("results/eval.json")  # notes the commit of the code that made the outputs
    clone.replace("scripts/corpus/filter.py", EXTENSION, 'return "" if dot <= 0 else name[dot:]')
    dirty = accept(clone, "filter.alpha")
    assert dirty.returncode == 1 and dirty.stderr.startswith("error: git: there are changes that are not committed")
    git(clone, "commit", "-qam", "harmless")
    assert {"filter alpha", "filter beta", "train sft"} <= clone.jobs()
    done = accept(clone, "filter")
    assert done.returncode == 0, done.stdout + done.stderr
    assert clone.jobs() == {"gate", "plots", "page", "scores", "verdict"}  # which show it

    clone.replace("scripts/corpus/filter.py", "return raw, text", "return raw, text.strip()")
    git(clone, "commit", "-qam", "harmful")
    done = accept(clone, "filter.alpha")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert (
        "filter alpha: refused, it will run; the outputs of the two versions differ in results/corpus/filter/alpha/"
        in done.stdout
    )
    assert {"filter alpha", "train sft"} <= clone.jobs()
    done = accept(clone, "split")
    assert "split: it would not run" in done.stderr or "its code did not change" in done.stdout
