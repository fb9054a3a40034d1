"""More sources than are worth a job each: shards make the same data, and rerun what one job each would rerun.

The limit is lowered, so that the two sources of the tiny experiment are one shard.
"""

import os
import re
import subprocess

from tests.workflow.conftest import DATA, row, source
from tests.workflow.test_reruns import repin_beta

SHARDS = {"fetch _0", "filter _0"}
SIMILAR = {"signatures 0"}
FILES = ("documents.jsonl.zst", "rejects.jsonl.zst", "manifest.json")
SPLIT = "results/corpus/split/manifest.json"


def ids(clone):
    """Which file each file of a source is: another one after it was written again."""
    paths = [*clone.root.glob("data/raw/*"), *clone.root.glob("results/corpus/filter/[!_]*/*")]
    return {str(path.relative_to(clone.root)): path.stat().st_ino for path in paths}


def test_shards_make_the_data_that_one_job_each_makes(finished, sharded):
    for name in ("alpha", "beta"):
        for file in FILES:
            path = f"results/corpus/filter/{name}/{file}"
            assert (sharded.root / path).read_bytes() == (finished.root / path).read_bytes()
    assert (sharded.root / DATA).read_bytes() == (finished.root / DATA).read_bytes()
    one_by_one = {path.name for path in (finished.root / "data/raw").iterdir()}
    assert {path.name for path in (sharded.root / "data/raw").iterdir()} == {
        name
        for name in one_by_one
        if not name.endswith(".provenance.json")  # of a shard there is one for all
    }
    assert sharded.jobs(DATA) == set()


def test_a_changed_pin_makes_its_source_again_and_what_depends_on_it(sharded, tmp_path):
    clone = sharded.copy(tmp_path / "clone")
    before = ids(clone)
    repin_beta(clone)
    done = clone.snakemake(DATA)
    assert set(re.findall(r"done: (.*)", done.stderr)) == {*SHARDS, *SIMILAR, "deduplicate"}
    after = ids(clone)
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed and all("/beta" in path for path in changed), changed


def test_a_source_at_another_location_or_with_another_priority_is_not_made_again(sharded, tmp_path):
    clone = sharded.copy(tmp_path / "clone")
    source("beta", clone.root / "moved")
    table = clone.root / "config/tiny.tsv"
    rows = [line for line in table.read_text().splitlines(keepends=True) if not line.startswith("beta")]
    table.write_text("".join(rows).replace("\thigh\t", "\tmedium\t") + row("beta", clone.root / "moved"))
    assert clone.jobs(DATA) == {"deduplicate"}, "the order in which duplicates are kept is for these alone"


def test_a_changed_filter_fetches_no_archive_again(sharded, tmp_path):
    clone = sharded.copy(tmp_path / "clone")
    clone.experiment(lambda config: config["corpus"].update(filter={"min_lines": 11}))
    assert clone.jobs(DATA) == {"filter _0", *SIMILAR, "deduplicate"}


def test_a_deleted_document_file_is_made_again_and_nothing_after_it(sharded, tmp_path):
    clone = sharded.copy(tmp_path / "clone")
    gone, before = clone.root / "results/corpus/filter/beta/documents.jsonl.zst", ids(clone)
    content = gone.read_bytes()
    gone.unlink()
    done = clone.snakemake(DATA)
    assert "missing, made again first: results/corpus/filter/beta/documents.jsonl.zst" in done.stderr
    assert "done: filter _0" in done.stderr and "deduplicate" not in done.stderr
    assert gone.read_bytes() == content
    assert {path for path, number in ids(clone).items() if number != before[path] and "/alpha" in path} == set()


def test_a_wrong_pin_in_a_shard_ends_in_a_line_that_names_the_source(sharded, tmp_path):
    clone = sharded.copy(tmp_path / "clone")
    table = clone.root / "config/tiny.tsv"
    line = next(line for line in table.read_text().splitlines() if line.startswith("beta"))
    clone.replace("config/tiny.tsv", line.split("\t")[3], "0" * 64)
    done = clone.snakemake(DATA, "--retries", "0", check=False)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("error: source beta: ")


def commit(folder, day):
    """Commit all of a folder on this day; returns the commit."""
    if not (folder / ".git").exists():
        subprocess.run(["git", "init", "-q", folder], check=True)
    dates = {"GIT_AUTHOR_DATE": f"{day}T12:00:00Z", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["add", "-A"], [*who, "commit", "-qm", day]):
        subprocess.run(["git", "-C", folder, *words], check=True, env=os.environ | dates)
    return subprocess.run(
        ["git", "-C", folder, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
