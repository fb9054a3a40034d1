"""Publish, clone elsewhere, `dvc pull`: real git, DVC and Snakemake, on a toy with the shape of the real workflow.

Each test works on a copy of one checkout in which the toy (toy/Snakefile) was run, or was run and published.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from scripts.common import provenance
from scripts.common.cli import UserError

REPOSITORY = Path(__file__).parents[2]
ALL_JOBS = {"filter alpha", "filter beta", "train first", "train second", "gate"}
PUBLISH = """
import sys; sys.path.insert(0, "."); from scripts.common.cli import run; from scripts.common.publish import publish
run(lambda: publish(sys.argv[1], ["alpha", "beta"], ["--cores", "1", *sys.argv[2:]]))
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
        return self.call(sys.executable, "-m", "dvc", *arguments, fails=fails)

    def snakemake(self, *arguments: str, fails: bool = False) -> str:
        return self.call(sys.executable, "-m", "snakemake", "--cores", "1", *arguments, fails=fails)

    def publish(self, root: str = "results", *arguments: str, fails: bool = False) -> str:
        return self.call(sys.executable, "-c", PUBLISH, root, *arguments, fails=fails)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "work")

    def run(self, *arguments: str) -> set[str]:
        """Run the workflow; the jobs that ran, as "rule wildcard"."""
        out = self.snakemake("--rerun-incomplete", *arguments)
        jobs = re.findall(r"^(?:local)?rule (\w+):\n((?: {4}.*\n)+)", out, re.MULTILINE)
        assert jobs or "Nothing to be done" in out, out
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
    shutil.copytree(REPOSITORY / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPOSITORY / "config", folder / "config")
    (folder / ".dvc").mkdir()
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"):
        shutil.copy(REPOSITORY / name, folder / name)
    shutil.copy(Path(__file__).parent / "toy" / "Snakefile", folder)
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


def test_publishing_leaves_nothing_to_do_in_the_same_checkout(published):
    assert (published / "data/raw/alpha.tar.zst.dvc").is_file()  # so that rule `pull` now stands for the archive
    assert published.planned() == set()


def test_publishing_twice_writes_the_same_bytes_and_no_absolute_paths(published, tmp_path):
    checkout = published.copy(tmp_path / "checkout")
    checkout.publish()
    assert checkout.git("status", "--porcelain") == ""
    committed = "".join(
        path.read_text() for path in checkout.folder.glob("data/**/*") if path.suffix in (".dvc", ".json")
    )
    assert "results/training/first/model.safetensors" in committed
    assert "/tmp" not in committed and str(Path.home()) not in committed


def test_only_finished_results_are_published(published):
    tracked = (published / "data/results.dvc").read_text()
    assert "results/training/first/config.json" in tracked  # undeclared, beside the model
    assert "logs" not in tracked


def test_clone_and_pull_leave_nothing_to_do(colleague):
    out = colleague.snakemake("--dry-run")
    assert "records of 7 of 7 pulled jobs restored" in out
    assert "Nothing to be done" in out
    results = [path for path in colleague.folder.glob("results/**/*") if path.is_file() and path.name != "config.json"]
    assert len({path.stat().st_mtime_ns for path in results}) == 1
    assert results[0].stat().st_mtime <= time.time()
    assert "restored" not in colleague.snakemake("--dry-run")  # nothing is hashed a second time
    assert colleague.git("status", "--porcelain") == ""


def test_clone_without_pull_makes_all_from_the_remote(published, tmp_path):
    checkout = published.clone(tmp_path / "checkout", pull=False)
    assert checkout.run() == ALL_JOBS | {"pull alpha", "pull beta"}
    assert (checkout / "results/eval.json").read_bytes() == (published / "results/eval.json").read_bytes()
    assert checkout.planned() == set()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("second_rate=0.2", {"train second", "gate"}),
        ("first_rate=0.2", {"train first", "train second", "gate"}),
        ("lines=20", ALL_JOBS),
        ("pin=2", set()),  # a pointer wins over the table of sources
    ],
)
def test_a_changed_setting_reruns_its_stage_and_what_stands_on_it(colleague, setting, expected):
    assert colleague.planned("--config", setting) == expected


TRAINING = {"train first", "train second", "gate"}


@pytest.mark.parametrize(
    ("harm", "name", "expected"),
    [
        (flip, "data/raw/alpha.tar.zst", {"pull alpha", "filter alpha", *TRAINING}),
        (flip, "results/corpus/filter/beta/documents.jsonl.zst", {"filter beta", *TRAINING}),
        (flip, "results/corpus/filter/beta/rejects.jsonl.zst", {"filter beta", *TRAINING}),
        (flip, "results/training/first/config.json", TRAINING),  # no rule declares it
        (flip, "results/eval.json", {"gate"}),
        (Path.unlink, "data/raw/alpha.json", {"pull alpha", "filter alpha", *TRAINING}),
        (Path.unlink, "results/training/first/model.safetensors", TRAINING),
    ],
)
def test_a_harmed_file_reruns_its_job_and_what_stands_on_it(colleague, harm, name, expected):
    harm(colleague / name)
    assert colleague.planned() == expected


def test_a_missing_intermediate_folder_is_made_again_with_what_stands_on_it(colleague):
    shutil.rmtree(colleague / "results/training/first")
    assert colleague.planned() == TRAINING


def test_harmed_files_are_named_and_once_made_again_all_is_done(colleague, published):
    name = "results/training/second/model.safetensors"
    flip(colleague / name)
    assert f"train is to be made again: {name} has another content" in colleague.snakemake("--dry-run")
    assert (colleague / name).is_file()  # a dry run deletes nothing, and blesses nothing
    assert colleague.run() == {"train second", "gate"}
    assert (colleague / name).read_bytes() == (published / name).read_bytes()
    assert colleague.planned() == set()


def test_an_edited_input_that_is_in_git_reruns_what_reads_it(colleague):
    (colleague / "template.txt").write_text("another\n")
    assert colleague.planned() == {"gate"}


def test_a_file_harmed_after_it_was_restored_is_noticed(colleague):
    assert colleague.planned() == set()
    flip(colleague / "results/training/first/model.safetensors")
    assert colleague.planned() == {"train first", "train second", "gate"}


def test_a_harmed_file_that_is_pulled_again_is_trusted(colleague):
    flip(colleague / "results/eval.json")
    assert colleague.planned() == {"gate"}
    colleague.dvc("checkout", "--quiet", "--force")
    assert colleague.planned() == set()


def test_an_update_is_pulled_into_a_checkout_that_already_has_results(published, tmp_path):
    publisher, colleague = published.copy(tmp_path / "publisher"), published.clone(tmp_path / "colleague")
    colleague.git("remote", "set-url", "origin", str(publisher.folder))
    assert colleague.planned() == set()
    snakefile = publisher / "Snakefile"
    snakefile.write_text(snakefile.read_text().replace('"0.1"', '"0.3"'))
    assert publisher.run() == {"train first", "train second", "gate"}
    publisher.publish()
    publisher.commit()
    colleague.git("pull", "--quiet")
    assert colleague.planned() == {"train first", "train second", "gate"}
    colleague.dvc("pull", "--quiet")
    assert colleague.planned() == set()


def test_results_made_in_this_checkout_are_left_alone(colleague):
    setting = ("--config", "second_rate=0.2")
    assert colleague.run(*setting) == {"train second", "gate"}
    mine = (colleague / "results/eval.json").read_bytes()
    for path in (colleague / "results").rglob("*.json"):
        os.utime(path)  # as a copy of the folder would
    assert colleague.planned(*setting) == set()
    assert (colleague / "results/eval.json").read_bytes() == mine


def test_a_published_verdict_on_other_data_than_lies_here_is_made_again(colleague):
    colleague.run("--config", "second_rate=0.2")
    colleague.dvc("checkout", "--quiet", "--force", "results/eval.json")
    assert colleague.planned("--config", "second_rate=0.2") == {"gate"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("\x00\x01", "not JSON"),
        ("[]", "top level"),
        ('{"record_format_version": 5, "jobs": []}', "record_format_version: 6 was expected"),
        ('{"record_format_version": 6, "jobs": [{"rule": "gate"}]}', "jobs.0"),
    ],
)
def test_a_broken_provenance_file_is_told_in_one_line(tmp_path, text, expected):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"^\S+results\.json: .*{expected}.*git checkout [^\n]*$"):
        provenance.read_provenance(path)


def test_a_broken_provenance_file_ends_snakemake_without_a_traceback(colleague):
    path = colleague / "data/results.json"
    path.write_text(path.read_text()[:-100])
    out = colleague.snakemake("--dry-run", fails=True)
    assert re.search(r"^error: data/results\.json: not JSON: .*git checkout", out, re.MULTILINE), out
    assert "Traceback" not in out


def test_another_snakemake_is_refused(monkeypatch):
    monkeypatch.setattr("snakemake.__version__", "9.28.0")
    with pytest.raises(UserError, match=r"Snakemake 9\.28\.0.*9\.27\.x"):
        provenance.open_records()


def test_another_record_format_is_refused(monkeypatch):
    monkeypatch.setattr("snakemake.persistence.RECORD_FORMAT_VERSION", 7)
    with pytest.raises(UserError, match="record format 6"):
        provenance.open_records()


def test_another_store_of_records_is_refused(colleague):
    out = colleague.snakemake("--dry-run", "--persistence-backend", "db", fails=True)
    assert "error: --persistence-backend" in out


def test_a_job_process_restores_nothing(colleague, monkeypatch):
    monkeypatch.chdir(colleague.folder)
    provenance.restore(SimpleNamespace(is_main_process=False), "results")
    assert not (colleague / ".snakemake").exists()


def test_publishing_that_was_killed_is_simply_repeated(toy, tmp_path):
    checkout = toy.copy(tmp_path / "checkout")
    command = [sys.executable, "-c", PUBLISH, "results"]
    for seen in ("data/raw/alpha.tar.zst.dvc", "data/results.dvc", "data/results.json"):
        process = subprocess.Popen(command, cwd=checkout.folder, start_new_session=True, stderr=subprocess.DEVNULL)
        while not (checkout / seen).exists():
            assert process.poll() is None
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if (checkout / ".snakemake/locks").exists():
            checkout.snakemake("--unlock")
    checkout.publish()
    assert checkout.planned() == set()
    checkout.commit()
    assert checkout.clone(tmp_path / "colleague").planned() == set()


def test_what_is_not_finished_is_left_out(published, tmp_path):
    checkout = published.copy(tmp_path / "checkout")
    (checkout / "results/eval.json").write_text("a better verdict")
    (checkout / "results/training/second/metrics.json").unlink()
    out = checkout.publish()
    assert "left out: gate: results/eval.json was changed" in out
    assert "left out: train: results/training/second/metrics.json is missing" in out
    assert "results/training/second" not in (checkout / "data/results.dvc").read_text()
    checkout.commit()
    assert checkout.clone(tmp_path / "colleague").planned() == {"train second", "gate"}


def test_what_stands_on_something_left_out_is_left_out(published, tmp_path):
    checkout = published.copy(tmp_path / "checkout")
    (checkout / "results/training/first/manifest.json").write_text("edited")
    out = checkout.publish()
    assert "left out: results/training/second/manifest.json" in out
    assert "left out: results/eval.json" in out
    assert "training" not in (checkout / "data/results.dvc").read_text()


def test_two_experiments_are_published_side_by_side(published, tmp_path):
    checkout = published.copy(tmp_path / "checkout")
    other = ("--config", "results=results/other", "lines=5")
    assert checkout.run(*other) == ALL_JOBS
    checkout.publish("results/other", *other)
    checkout.publish()
    assert "results/other" not in (checkout / "data/results.dvc").read_text()
    checkout.commit()
    colleague = checkout.clone(tmp_path / "colleague")
    assert colleague.planned(*other) == set()
    assert colleague.planned() == set()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (["remote", "remove", "shelf"], r"^error: no DVC remote: `dvc remote add -d NAME URL"),
        (
            ["remote", "modify", "shelf", "verify", "false"],
            r"^error: DVC remote shelf: .*`dvc remote modify shelf verify true`",
        ),
    ],
)
def test_without_a_remote_that_verifies_nothing_is_published(toy, tmp_path, change, expected):
    checkout = toy.copy(tmp_path / "checkout")
    checkout.dvc(*change)
    assert re.search(expected, checkout.publish(fails=True), re.MULTILINE)
    assert not list(checkout.folder.glob("data/**/*.dvc"))


def test_during_a_run_nothing_is_published(toy, tmp_path):
    checkout = toy.copy(tmp_path / "checkout")
    (checkout / ".snakemake/locks").mkdir(exist_ok=True)
    (checkout / ".snakemake/locks/0.output.lock").write_text("results/eval.json\n")
    assert "error: a run is under way" in checkout.publish(fails=True)


def test_before_a_run_there_is_nothing_to_publish(published, tmp_path):
    checkout = published.clone(tmp_path / "checkout", pull=False)
    assert "error: results: nothing finished to publish" in checkout.publish(fails=True)


def test_an_experiment_without_sources_can_be_published(published, tmp_path):
    checkout = published.clone(tmp_path / "checkout", pull=False)
    command = [sys.executable, "-m", "scripts.common.publish", "--configfile", "config/smoke/lora-qa.yaml"]
    done = subprocess.run(command, cwd=checkout.folder, capture_output=True, text=True)
    assert done.stderr.startswith("error: results/smoke/lora-qa: nothing finished to publish")


# ---- the real workflow ----


def test_the_real_workflow_is_published_pulled_and_rerun_where_it_changed(finished, tmp_path):
    checkout = Checkout(finished.copy(tmp_path / "publisher").root)
    workflow = ("results/eval.json", "results/report.html", "--profile", "local", "--configfile", "config/tiny.yaml")
    checkout.git("init", "--quiet")
    checkout.dvc("remote", "add", "--quiet", "--default", "shelf", str(tmp_path / "shelf"))
    checkout.dvc("remote", "modify", "shelf", "verify", "true")
    publish = (sys.executable, "-m", "scripts.common.publish", "--profile", "local", "--configfile", "config/tiny.yaml")
    assert "left out" not in checkout.call(*publish)
    assert checkout.planned(*workflow) == set()
    checkout.commit()

    colleague = checkout.clone(tmp_path / "colleague")
    assert colleague.planned(*workflow) == set()
    settings = yaml.safe_load((colleague / "config/tiny.yaml").read_text())
    settings["training"]["train"]["sft"]["learning_rate"] *= 2
    (colleague / "config/mine.yaml").write_text(yaml.safe_dump(settings))
    report = {"plots", "page", "verdict"}
    mine = (*workflow[:-1], "config/mine.yaml")
    assert colleague.planned(*mine) == {"train sft", "perplexity sft", "keywords sft", "gate", *report}

    flip(colleague / "results/evaluation/perplexity/sft/items.jsonl.zst")
    assert colleague.planned(*workflow) == {"perplexity sft", "gate", *report}
    shutil.rmtree(colleague / "data/raw")
    colleague.git("checkout", "--quiet", "data/raw")
    colleague.snakemake("data/raw/alpha.json", "data/raw/beta.json", *workflow[2:])
    manifests = [(side / "data/raw/alpha.json").read_bytes() for side in (checkout, colleague)]
    assert manifests[0] == manifests[1]  # rule `pull` makes the very manifest that was published


# ---- real remotes on loopback ----


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
def s3(monkeypatch):
    """An S3 server: (URL of a bucket, options of the remote, flip(object))."""
    boto3, server = pytest.importorskip("boto3"), pytest.importorskip("moto.server")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    endpoint = "http://{}:{}".format(*moto.get_host_and_port())
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="shelf")

    def flip_object(md5: str) -> None:
        key = f"store/files/md5/{md5[:2]}/{md5[2:]}"
        content = bytearray(client.get_object(Bucket="shelf", Key=key)["Body"].read())
        content[0] ^= 1
        client.put_object(Bucket="shelf", Key=key, Body=bytes(content))

    yield "s3://shelf/store", {"endpointurl": endpoint}, flip_object
    moto.stop()


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


@pytest.mark.parametrize("kind", ["s3", "ssh"])
def test_a_remote_elsewhere_serves_a_clone_and_a_flipped_byte_in_it_is_refused(toy, tmp_path, kind, request):
    url, options, flip_object = request.getfixturevalue(kind)
    checkout = toy.copy(tmp_path / "checkout")
    checkout.dvc("remote", "add", "--quiet", "--default", "elsewhere", url)
    for name, value in {**options, "verify": "true"}.items():
        checkout.dvc("remote", "modify", "elsewhere", name, value)
    checkout.publish()
    checkout.commit()
    assert checkout.clone(tmp_path / "colleague").planned() == set()

    model = re.search(r"second/model.safetensors\n  md5: (\w+)", (checkout / "data/results.dvc").read_text())[1]
    flip_object(model)
    late = checkout.clone(tmp_path / "late", pull=False)
    assert "results/training/second/model.safetensors" in late.dvc("pull", fails=True)
    assert not (late / "results/training/second/model.safetensors").exists()
    assert late.planned() == {"train second", "gate"}
