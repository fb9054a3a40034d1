"""Fetching folders, and git by commit: pins, hostile locations, credentials, kills."""

import base64
import http.server
import signal
import subprocess
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.layout import raw_name
from scripts.sources.archives.canonical_archive import pack_folder
from scripts.sources.archives.members import LIMITS, Limits
from tests.sources.fetching import fetch_command, get, refused, started_in

ROOT = Path(__file__).parents[2]


# folders


def test_limits_of_the_settings_are_enforced(tmp_path, raw, tools):
    tree = tools.write_tree(tmp_path / "tree", tools.FILES)
    refused(raw, "one more than the 3 that", "path", tree, "0" * 64, LIMITS._replace(members=3))


def test_command_line_reports_a_mistake_in_one_line(tmp_path):
    source = {"name": "it", "kind": "path", "location": str(tmp_path / "none"), "pin": "0" * 64}
    done = subprocess.run(fetch_command(source), **started_in(tmp_path), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"error: source it: {tmp_path / 'none'}: no such folder\n")


# git


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path, tools):
    """(folder, its first commit, its second)."""
    folder = tools.write_tree(tmp_path / "repository", tools.FILES)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    first = git(folder, "rev-parse", "HEAD")
    (folder / "later.py").write_text("later")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "two")
    return folder, first, git(folder, "rev-parse", "HEAD")


def test_git_gives_the_pinned_commit_whatever_came_after(repository, raw, tools):
    folder, first, second = repository
    get(raw, "git", folder, first)
    assert tools.contents(raw / "it.tar.zst") == tools.FILES
    get(raw, "git", f"file://{folder}", second)
    assert set(tools.contents(raw / "it.tar.zst")) == {*tools.FILES, "later.py"}


def test_git_server_that_gives_only_tips_is_cloned(repository, raw, tools, monkeypatch):
    folder, first, _ = repository
    # the first protocol refuses what no branch names, as some servers do
    for key, value in {"COUNT": "1", "KEY_0": "protocol.version", "VALUE_0": "0"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{key}", value)
    work = folder.parent / "probe"
    git(folder.parent, "init", "-q", "--bare", work)
    with pytest.raises(subprocess.CalledProcessError):
        git(work, "fetch", "-q", "--depth=1", f"file://{folder}", first)
    get(raw, "git", f"file://{folder}", first)
    assert tools.contents(raw / "it.tar.zst") == tools.FILES


def test_git_content_is_as_committed_whatever_the_attributes_say(tmp_path, raw, tools):
    files = {
        ".gitattributes": b"secret.py export-ignore\nid.py export-subst ident\ndos.py text eol=crlf\n*.c filter=evil\n",
        "secret.py": b"1\n", "id.py": b"$Format:%H$ $Id$\n", "dos.py": b"a\nb\n", "a.c": b"int\n"
    }  # fmt: skip
    folder = tools.write_tree(tmp_path / "r", files)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    get(raw, "git", folder, git(folder, "rev-parse", "HEAD"))
    assert tools.contents(raw / "it.tar.zst") == files


def test_git_submodules_are_left_out_and_reported(repository, raw, tools, caplog):
    folder, first, _ = repository
    caplog.set_level("INFO")
    (folder / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ../sub\n')
    git(folder, "add", ".gitmodules")
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{first},sub")
    git(folder, "commit", "-q", "-m", "three")
    get(raw, "git", folder, git(folder, "rev-parse", "HEAD"))
    assert set(tools.contents(raw / "it.tar.zst")) == {*tools.FILES, "later.py", ".gitmodules"}
    assert "submodules are not fetched" in caplog.text


def test_git_commit_that_is_not_there_is_refused(repository, raw):
    refused(raw, "no commit 0000", "git", repository[0], "0" * 40)
    tree = git(repository[0], "rev-parse", "HEAD^{tree}")
    refused(raw, f"no commit {tree}", "git", repository[0], tree)


def test_git_repository_that_is_not_there_is_refused(tmp_path, raw):
    refused(raw, "cannot read .*none", "git", tmp_path / "none", "0" * 40)
    refused(raw, "cannot read http://127.0.0.1:9", "git", "http://127.0.0.1:9/x.git", "0" * 40)


@pytest.mark.slow
def test_git_location_runs_no_command(tmp_path, raw):
    for location in (f"ext::sh -c touch% {tmp_path}/ran", f"--upload-pack=touch {tmp_path}/ran", "-q"):
        refused(raw, "cannot read", "git", location, "0" * 40)
    assert not (tmp_path / "ran").exists()


def test_git_is_not_led_astray_by_the_variables_of_a_hook(repository, raw, tools, monkeypatch):
    folder, first, _ = repository
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(folder.parent / "elsewhere"))
    get(raw, "git", folder, first)
    assert not (folder.parent / "elsewhere").exists()
    assert tools.contents(raw / "it.tar.zst") == tools.FILES


class Guarded(http.server.SimpleHTTPRequestHandler):
    """Serves files to the user `me` with the password `hidden`."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.headers.get("Authorization") == "Basic " + base64.b64encode(b"me:hidden").decode():
            return super().do_GET()
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()
        return None


HELPER = "!f() { echo username=me; echo password=hidden; }; f"
HEADER = "Authorization: Basic " + base64.b64encode(b"me:hidden").decode()


@pytest.mark.parametrize("way", ["helper", "netrc", "environment", "rewritten URL", "none"])
def test_git_credentials_are_given_beside_the_url_and_never_shown(
    way, repository, served, raw, tools, tmp_path, monkeypatch
):
    folder, first, _ = repository
    git(tmp_path, "clone", "-q", "--bare", folder, tmp_path / "served/r.git")
    git(tmp_path / "served/r.git", "update-server-info")
    url = served(tmp_path / "served", Guarded).url
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    if way == "helper":
        (home / ".gitconfig").write_text(f'[credential]\n\thelper = "{HELPER}"\n')
    elif way == "netrc":
        (home / ".netrc").write_text("machine 127.0.0.1 login me password hidden\n")
    elif way == "environment":
        for key, value in {"COUNT": "1", "KEY_0": "http.extraHeader", "VALUE_0": HEADER}.items():
            monkeypatch.setenv(f"GIT_CONFIG_{key}", value)
    elif way == "rewritten URL":  # with a password that is wrong
        (home / ".gitconfig").write_text(f'[url "{url.replace("//", "//me:secret@")}"]\n\tinsteadOf = {url}\n')
    if way in ("rewritten URL", "none"):
        with pytest.raises(UserError, match="cannot read http://127") as caught:
            get(raw, "git", f"{url}/r.git", first)
        assert "secret" not in str(caught.value)
        return
    get(raw, "git", f"{url}/r.git", first)
    assert tools.contents(raw / "it.tar.zst") == tools.FILES
    assert "hidden" not in (raw / "it.json").read_text()


# kills


def test_fetch_killed_while_it_writes_leaves_nothing_declared(tmp_path, tools):
    tree = tools.write_tree(tmp_path / "tree", tools.FILES)
    code = (
        "import sys, time, scripts.sources.archives.canonical_archive as archive, scripts.sources.fetch as fetch\n"
        "from scripts.common import options\n"
        "def stall(member, tar):\n    print('midway', flush=True)\n    time.sleep(600)\n    yield b''\n"
        "archive.content = stall\nfetch.fetch_all(**options.given(fetch.fetch_all))\n"
    )
    pin = pack_folder(tree, None, Limits())["sha256"]
    line = fetch_command({"name": "it", "kind": "path", "location": str(tree), "pin": pin}, code=("-c", code))
    process = subprocess.Popen(line, **started_in(tmp_path), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "midway\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    raw, name = tmp_path / "data/raw", raw_name("it", pin)
    left = [path.name for path in raw.iterdir()]
    assert left and all(file.startswith(".") for file in left)
    get(raw, "path", tree, pin, name=name)
    assert sorted(path.name for path in raw.iterdir()) == [f"{name}.json", f"{name}.tar.zst"]
