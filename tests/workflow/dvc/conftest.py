"""A toy with the shape of the real workflow (Snakefile): run, published, and pulled elsewhere by real git and DVC."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forked

REPOSITORY = Path(__file__).parents[3]
ALL_JOBS = {"filter alpha", "filter beta", "train first", "train second", "gate"}
PUBLISH = """
import sys; sys.path.insert(0, "."); from scripts.common.cli import run; from scripts.release.publish import publish
run(lambda: publish(sys.argv[1], sys.argv[2].split(), ["--cores", "1", *sys.argv[3:]]))
"""


class Checkout:
    """A git checkout of the toy, and the commands of its user."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def call(self, *command: str, fails: bool = False) -> str:
        """Run a command here; its stdout and stderr, the code of its exit being as expected."""
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert bool(done.returncode) == fails, done.stdout
        return done.stdout

    def git(self, *arguments: str) -> str:
        return self.call("git", *arguments)

    def dvc(self, *arguments: str, fails: bool = False) -> str:
        return self.call(forked.python(), "-m", "dvc", *arguments, fails=fails)

    def snakemake(self, *arguments: str, fails: bool = False) -> str:
        return self.call(forked.python(), "-m", "snakemake", "--cores", "1", *arguments, fails=fails)

    def publish(self, root: str = "results", *arguments: str, pin: str = "1", fails: bool = False) -> str:
        return self.call(forked.python(), "-c", PUBLISH, root, f"alpha-{pin} beta-{pin}", *arguments, fails=fails)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "work")

    def run(self, *arguments: str) -> set[str]:
        """Run the workflow; the jobs that ran, as "rule wildcard"."""
        out = self.snakemake("--rerun-incomplete", *arguments)
        jobs = re.findall(r"^(?:local)?rule (\w+):\n((?: {4}.*\n)+)", out, re.MULTILINE)
        assert jobs or "Nothing to be done" in out, out
        assert "Traceback" not in out, out
        return {" ".join([rule, *re.findall(r"wildcards: \w+=(\w+)", text)]) for rule, text in jobs}

    def planned(self, *arguments: str) -> set[str]:
        """The jobs that a dry run shows."""
        return self.run("--dry-run", *arguments)

    def copy(self, folder: Path) -> "Checkout":
        return Checkout(Path(shutil.copytree(self.folder, folder, symlinks=True)))

    def clone(self, folder: Path, pull: bool = True) -> "Checkout":
        """What a colleague does: git clone, dvc pull."""
        self.call("git", "clone", "--quiet", str(self.folder), str(folder))
        colleague = Checkout(folder)
        if pull:
            colleague.dvc("pull", "--quiet")
        return colleague


def flip(path: Path) -> None:
    """Change one bit of a file; a file that may not be written is made writable first, as a broken disk would."""
    mode = path.stat().st_mode
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    path.chmod(mode)


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """Nothing of the user's own settings, keys and caches."""
    home = tmp_path_factory.mktemp("home")
    who = {f"GIT_{role}_{what}": "test@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    caches = {"XDG_CACHE_HOME": str(home / "cache"), "DVC_SITE_CACHE_DIR": str(home / "dvc")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"HOME": str(home), "PATH": path, **who, **caches}.items():
            patch.setenv(name, value)
        yield home


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Checkout:
    """A checkout with a folder as its remote, in which the toy was run."""
    folder = tmp_path_factory.mktemp("toy")
    shutil.copytree(REPOSITORY / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copytree(REPOSITORY / "config", folder / "config")
    (folder / ".dvc").mkdir()
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"):
        shutil.copy(REPOSITORY / name, folder / name)
    shutil.copy(Path(__file__).with_name("Snakefile"), folder)
    (folder / "template.txt").write_text("verdict\n")
    checkout = Checkout(folder)
    checkout.git("init", "--quiet")
    checkout.dvc("remote", "add", "--quiet", "--default", "shelf", str(tmp_path_factory.mktemp("shelf") / "store"))
    checkout.dvc("remote", "modify", "shelf", "verify", "true")
    checkout.commit()
    assert checkout.run() == ALL_JOBS | {"fetch alpha", "fetch beta"}
    return checkout


@pytest.fixture(scope="module")
def published(toy, tmp_path_factory) -> Checkout:
    """The same, published and committed."""
    checkout = toy.copy(tmp_path_factory.mktemp("published") / "checkout")
    checkout.publish()
    checkout.commit()
    return checkout


@pytest.fixture(scope="module")
def pulled(published, tmp_path_factory) -> Checkout:
    return published.clone(tmp_path_factory.mktemp("pulled") / "checkout")


@pytest.fixture
def colleague(pulled, tmp_path) -> Checkout:
    """A clone into which the results were pulled, in which Snakemake was not called yet."""
    return pulled.copy(tmp_path / "colleague")


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def wait_for(port: int) -> None:
    for _ in range(500):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nothing answers on port {port}")


@pytest.fixture
def ssh(tmp_path):
    """An SSH server: (URL of a folder, options of the remote, flip(object))."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None:
        pytest.skip("no sshd: apt-get install openssh-server")
    key, host, port = tmp_path / "key", tmp_path / "host", free_port()
    for name in (key, host):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(name)], check=True)
    settings = {
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "HostKey": host,
        "AuthorizedKeysFile": f"{key}.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "Subsystem": "sftp internal-sftp",
    }
    (tmp_path / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd as root insists on it
    command = [sshd, "-D", "-e", "-f", str(tmp_path / "sshd_config")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for(port)
    user = subprocess.run(["id", "--user", "--name"], capture_output=True, text=True, check=True).stdout.strip()
    options = {"port": str(port), "user": user, "keyfile": str(key)}
    store = tmp_path / "store"
    yield f"ssh://127.0.0.1{store}", options, lambda md5: flip(store / "files" / "md5" / md5[:2] / md5[2:])
    process.kill()
    process.wait()
