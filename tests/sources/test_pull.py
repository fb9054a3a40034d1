"""Pulling by DVC pointers: real repositories with a folder as remote, flipped bytes, jobs side by side, kills."""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.sources import pull as module
from scripts.sources.archives.canonical_archive import pack_tar
from scripts.sources.archives.members import Limits
from tests import forked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RAW = Path("data/raw")
PIN = "0123456789" * 4


ARGUMENTS = ["--name", "a", "--kind", "git", "--pin", PIN, "--names", "a"]


def pull(name, names, kind="git", pin=PIN):
    return module.pull(name, kind, pin, names)


def dvc(*arguments, cwd):
    environment = {**os.environ, "DVC_SITE_CACHE_DIR": str(cwd.parent / "site")}
    line = [forked.python(), "-m", "dvc", *arguments]
    subprocess.run(line, cwd=cwd, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def published(tmp_path_factory, tools):
    """A repository with sources a, b and c, pushed to a folder; its cache is empty. (folder, {source: manifest})"""
    root = tmp_path_factory.mktemp("published") / "repository"
    (root / RAW).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    dvc("init", "-q", cwd=root)
    dvc("config", "core.analytics", "false", cwd=root)
    dvc("remote", "add", "-q", "-d", "folder", "remote", cwd=root)
    facts = {}
    for name in "abc":
        data = tools.make_tar({f"{name}.py": name.encode() * 1000, **tools.FILES})
        packed = pack_tar(io.BufferedReader(io.BytesIO(data)), root / RAW / f"{name}.tar.zst", Limits())
        facts[name] = {**packed, "kind": "git", "location": f"https://example.org/{name}", "pin": PIN}
        (root / RAW / f"{name}.json").write_text(json.dumps(facts[name]))
    dvc("add", "-q", *(str(RAW / f"{name}.{kind}") for name in "abc" for kind in ("tar.zst", "json")), cwd=root)
    dvc("push", "-q", cwd=root)
    shutil.rmtree(root / ".dvc/cache")
    for name in "abc":
        (root / RAW / f"{name}.tar.zst").unlink()
        (root / RAW / f"{name}.json").unlink()
    return root, facts


@pytest.fixture
def here(published, tmp_path, monkeypatch):
    """A copy of that repository, as working directory."""
    root = tmp_path / "repository"
    shutil.copytree(published[0], root)
    monkeypatch.chdir(root)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(sys, "executable", forked.python())  # by which `pull` starts DVC
    return root


def md5(name):
    return yaml.safe_load((RAW / f"{name}.tar.zst.dvc").read_text())["outs"][0]["md5"]


def object_of(name, store):
    return Path(store) / "files/md5" / md5(name)[:2] / md5(name)[2:]


def flip(path):
    """Flip a bit of an object and leave it read-only, as DVC does: what is 0444 it does not hash again."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)
    return hashlib.md5(data).hexdigest()


def assert_complete(name, facts):
    assert hashlib.md5((RAW / f"{name}.tar.zst").read_bytes()).hexdigest() == md5(name)
    assert json.loads((RAW / f"{name}.json").read_text()) == facts[name]


def nothing(name):
    assert not [path for path in RAW.iterdir() if name in path.name.split(".") and path.suffix != ".dvc"]


def publish(name, archive, facts):
    """Add an archive and its manifest to DVC, and remove both."""
    (RAW / f"{name}.tar.zst").write_bytes(archive)
    (RAW / f"{name}.json").write_text(json.dumps(facts))
    dvc("add", "-q", str(RAW / f"{name}.tar.zst"), str(RAW / f"{name}.json"), cwd=Path.cwd())
    for kind in ("tar.zst", "json"):
        (RAW / f"{name}.{kind}").unlink()


def test_pull_gives_archive_and_manifest_as_fetch_does_and_fetches_for_all(here, published):
    pull("a", ["a", "b", "c"])
    assert_complete("a", published[1])
    assert object_of("b", ".dvc/cache").is_file() and object_of("c", ".dvc/cache").is_file()
    shutil.rmtree("remote")  # what is in the cache needs no remote
    pull("b", ["a", "b", "c"])
    assert_complete("b", published[1])


COUNTED = """
import scripts.sources.pull as pull
run_dvc = pull.run_dvc
def counted(*words):
    if 'fetch' in words:
        open('fetches', 'a').write('x')
    return run_dvc(*words)
pull.run_dvc = counted
from scripts.common.options import given
pull.pull(**given(pull.pull))
"""


def test_jobs_side_by_side_all_succeed_with_one_fetch(here, published):
    line = [forked.python(), "-c", COUNTED, "--kind", "git", "--pin", PIN, "--names", "a", "b", "c", "--name"]
    jobs = [subprocess.Popen([*line, name], stderr=subprocess.DEVNULL) for name in "abc"]
    assert [job.wait() for job in jobs] == [0, 0, 0]
    assert Path("fetches").read_text() == "x"
    for name in "abc":
        assert_complete(name, published[1])


def test_flipped_bit_in_a_read_only_cache_object_is_healed_from_the_remote(here, published):
    pull("a", ["a"])
    (RAW / "a.tar.zst").unlink()
    flip(object_of("a", ".dvc/cache"))
    dvc("checkout", "-q", str(RAW / "a.tar.zst.dvc"), cwd=here)
    assert hashlib.md5((RAW / "a.tar.zst").read_bytes()).hexdigest() != md5("a")  # so DVC alone delivers it
    pull("a", ["a"])
    assert_complete("a", published[1])
    assert hashlib.md5(object_of("a", ".dvc/cache").read_bytes()).hexdigest() == md5("a")


def test_flipped_bit_in_the_remote_is_refused_with_both_hashes_and_leaves_no_poison(here):
    damaged_md5 = flip(object_of("a", "remote"))
    with pytest.raises(UserError, match=f"a.tar.zst.dvc: .* md5 {damaged_md5}, the pointer says {md5('a')}"):
        pull("a", ["a"])
    nothing("a")
    assert not object_of("a", ".dvc/cache").exists()


def test_flipped_bit_in_a_verified_remote_is_refused(here):
    dvc("remote", "modify", "-q", "folder", "verify", "true", cwd=here)
    flip(object_of("a", "remote"))
    with pytest.raises(UserError, match=f"a.tar.zst.dvc: no remote gives its object, md5 {md5('a')}"):
        pull("a", ["a"])
    nothing("a")


def test_object_that_the_remote_lacks_is_refused_and_the_others_still_come(here, published):
    object_of("a", "remote").unlink()
    with pytest.raises(
        UserError, match=r"a.tar.zst.dvc: no remote gives its object, md5 .*; `dvc push` where"
    ) as caught:
        pull("a", ["a", "b"])
    assert "\n" not in str(caught.value)
    nothing("a")
    pull("b", ["a", "b"])
    assert_complete("b", published[1])


def test_remote_that_cannot_be_reached_or_is_not_set_is_refused(here):
    dvc("remote", "modify", "-q", "folder", "url", "ssh://nobody@127.0.0.1:9/remote", cwd=here)
    with pytest.raises(UserError, match=r"a.tar.zst.dvc: no remote gives its object, md5 .*; dvc fetch: \w+") as caught:
        pull("a", ["a"])
    assert "\n" not in str(caught.value)
    dvc("remote", "remove", "-q", "folder", cwd=here)
    with pytest.raises(UserError, match=r"no remote gives its object, md5 .*; .* see `dvc remote list` here"):
        pull("a", ["a"])


def test_folder_that_is_no_dvc_repository_is_refused_in_one_line(here):
    shutil.rmtree(".dvc")
    line = [forked.python(), "-m", "scripts.sources.pull", *ARGUMENTS]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: no DVC repository here")


POINTERS = {
    "empty": "",
    "binary": "\x00\x01",
    "malformed": "outs: [",
    "no outs": "deps: []",
    "of a folder": "outs:\n- md5: {md5}.dir\n  size: 5\n  hash: md5\n  path: a\n",
    "of DVC 2": "outs:\n- md5: {md5}\n  size: 5\n  path: a.tar.zst\n",
    "two files": "outs:\n" + "- {{md5: {md5}, size: 5, hash: md5, path: a}}\n" * 2,
    "a path for a hash": "outs:\n- {{md5: ../../../etc/passwd, size: 5, hash: md5, path: a}}\n",
}


@pytest.mark.parametrize("case", POINTERS)
def test_malformed_pointer_is_refused(case, here):
    (RAW / "a.tar.zst.dvc").write_text(POINTERS[case].format(md5="0" * 32))
    with pytest.raises(UserError, match=r"^data/raw/a.tar.zst.dvc: ") as caught:
        pull("a", ["a"])
    assert "\n" not in str(caught.value)


def test_archive_that_fetch_did_not_write_is_refused(here, tools):
    publish("other", tools.make_tar(tools.FILES, "w:gz"), {"kind": "git", "pin": PIN})
    with pytest.raises(UserError, match=r"data/raw/other.tar.zst: no archive in canonical form"):
        pull("other", ["other"])
    nothing("other")


@pytest.mark.parametrize(("kind", "pin"), [("git", "f" * 40), ("path", PIN)])
def test_archive_of_another_commit_than_the_table_pins_is_refused(kind, pin, here):
    line = f"^data/raw/a.json: made from git {PIN}, but the sources table pins {kind} {pin}; `rm data/raw/a.*` and run"
    with pytest.raises(UserError, match=line):
        pull("a", ["a"], kind, pin)
    nothing("a")


def test_archive_that_is_not_the_one_of_its_manifest_is_refused(here, published):
    pull("a", ["a"])
    archive = (RAW / "a.tar.zst").read_bytes()
    publish("mixed", archive, published[1]["b"])
    with pytest.raises(UserError, match=r"mixed.tar.zst: content has sha256 \w+, its manifest says \w+"):
        pull("mixed", ["mixed"])
    nothing("mixed")


STALL = """
import time, scripts.sources.pull as pull
def stall(*_):
    print('midway', flush=True)
    time.sleep(600)
{}
from scripts.common.options import given
pull.pull(**given(pull.pull))
"""
STEPS = {
    "in the lock": "call = pull.run_dvc; pull.run_dvc = lambda *words: stall() if 'fetch' in words else call(*words)",
    "after copying": "pull.describe = stall",
}


@pytest.mark.parametrize("step", STEPS)
def test_killed_pull_leaves_nothing_declared_and_no_lock(step, here, published):
    line = [forked.python(), "-c", STALL.format(STEPS[step]), *ARGUMENTS]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "midway\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (RAW / "a.tar.zst").exists() and not (RAW / "a.json").exists()
    pull("a", ["a"])
    assert_complete("a", published[1])
