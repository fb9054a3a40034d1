"""Sources in shards, published and pulled by real DVC: nothing to do for a colleague, and a bad remote is one line."""

import re
import subprocess

from tests import forked
from tests.workflow.conftest import DATA
from tests.workflow.dvc.conftest import Checkout, flip

WORKFLOW = ("--profile", "local", "--configfile", "config/tiny.yaml")
DOCUMENTS = "results/corpus/filter/{}/documents.jsonl.zst"


def make(checkout, *words) -> subprocess.CompletedProcess:
    line = [forked.python(), "-m", "snakemake", DATA, *WORKFLOW, "--retries", "0", *words]
    return subprocess.run(line, cwd=checkout.folder, capture_output=True, text=True)


def refused(done) -> str:
    """The one error line of a run that failed."""
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr, done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("error: ") and done.stderr.count("\nerror: ") == 1, done.stderr
    return last


def test_shards_are_published_and_pulled_and_a_damaged_remote_is_refused_until_it_is_repaired(sharded, tmp_path):
    checkout = Checkout(sharded.copy(tmp_path / "publisher").root)
    checkout.git("init", "--quiet")
    checkout.dvc("remote", "add", "--quiet", "--default", "shelf", str(tmp_path / "shelf"))
    checkout.dvc("remote", "modify", "shelf", "verify", "true")
    checkout.call(forked.python(), "-m", "scripts.release.publish", *WORKFLOW)
    pointers = {path.name.partition("-")[0]: path for path in (checkout / "data/raw").glob("*.tar.zst.dvc")}
    assert pointers.keys() == {"alpha", "beta"}
    table = checkout / "config/tiny.tsv"
    table.write_text(re.sub(r"path\t\S+", "path\t/not/there", table.read_text()))  # only the remote has them now
    checkout.commit()

    colleague = checkout.clone(tmp_path / "colleague")
    assert colleague.planned(DATA, *WORKFLOW) == set()
    assert (colleague / DOCUMENTS.format("beta")).read_bytes() == (checkout / DOCUMENTS.format("beta")).read_bytes()

    late = checkout.clone(tmp_path / "late", pull=False)
    md5 = re.search(r"md5: (\w+)", pointers["beta"].read_text())[1]
    there = tmp_path / "shelf/files/md5" / md5[:2] / md5[2:]
    flip(there)
    assert pointers["beta"].name in refused(make(late))
    assert list((late / "data/raw").glob("alpha*.json")) and not list((late / "data/raw").glob("beta*.json"))
    there.rename(tmp_path / "away")
    assert f"no remote gives its object, md5 {md5}" in refused(make(late))
    flip(tmp_path / "away")
    (tmp_path / "away").rename(there)
    assert make(late).returncode == 0
    for name in ("alpha", "beta"):
        assert (late / DOCUMENTS.format(name)).read_bytes() == (checkout / DOCUMENTS.format(name)).read_bytes()
