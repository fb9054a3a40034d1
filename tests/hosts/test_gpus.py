"""scripts/hosts/gpus.py: jobs never meet on a card, a dead one's cards are free, the impossible is refused at once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from scripts.common.cli import UserError
from scripts.experiment.settings.machine import Machine
from scripts.hosts import gpus, lease_folder
from scripts.hosts.gpus import CHOSEN, Card, described, eligible
from scripts.hosts.lease_folder import GATE

A800, A40 = {"name": "NVIDIA A800 80GB PCIe", "memory_gib": 80.0}, {"name": "NVIDIA A40", "memory_gib": 44.99}
MIXED = [A800] * 4 + [A40] * 4
CARDS = [Card(index, f"GPU-{index}", card["name"], card["memory_gib"]) for index, card in enumerate(MIXED)]
ON_HOST = "this host has 4 NVIDIA A800 80GB PCIe (0, 1, 2, 3), 4 NVIDIA A40 (4, 5, 6, 7)"
# what Python finds as torch: another version.py, as of a build for CUDA; imported, it is the real torch
CUDA_TORCH = {
    "version.py": "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n",
    "__init__.py": "import sys\nfrom pathlib import Path\nsys.path.remove(str(Path(__file__).parents[1]))\n"
    "del sys.modules['torch']\nimport torch\n",
}
SAY = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ.get('CUDA_DEVICE_ORDER'))"
# appends its cards and when it had them; a job of "for ever" waits to be killed
HOLD = """
import json, os, sys, time
def tell(what):
    line = json.dumps({what: time.monotonic(), "pid": os.getpid(), "cards": os.environ["CUDA_VISIBLE_DEVICES"]})
    os.write(log, line.encode() + b"\\n")
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
tell("start")
time.sleep(float(sys.argv[2]))
tell("end")
"""
HOLD_GATE = """
import fcntl, sys, time
with open(sys.argv[1], "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write("process 7 in /home/her")
    file.flush()
    print("held", flush=True)
    time.sleep(60)
"""


class Host:
    """A host with the cards `found`, on which commands are leased some."""

    def __init__(self, folder: Path, found: list[dict]):
        self.folder, self.found, self.leases = folder, found, folder / "leases"
        clean = {name: value for name, value in os.environ.items() if name not in CHOSEN}
        path = {"PYTHONPATH": f"{Path(__file__).parent / 'nvml'}:{Path.cwd()}:{folder}"}
        self.env = {**clean, **path, "FAKE_NVML": json.dumps(found), "STAGECRAFT_GPU_LEASES": str(self.leases)}

    def words(self, count: int, *program: str, **machine) -> list[str]:
        path = self.folder / f"{len(list(self.folder.glob('*.yaml')))}.yaml"
        path.write_text(yaml.safe_dump({"nodes": 1, "gpus": len(self.found), "micro_batch": 1, **machine}))
        module = [sys.executable, "-m", "scripts.hosts.gpus", "--machine", str(path), "--count", str(count)]
        return [*module, *(program or (sys.executable, "-c", SAY))]

    def start(self, *given, **machine) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(self.words(*given, **machine), env=self.env, **pipes)

    def run(self, *given, **machine) -> subprocess.CompletedProcess:
        words = self.words(*given, **machine)
        return subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60, check=False)

    def hold(self, count: int, seconds: float, **machine) -> subprocess.Popen:
        return self.start(count, sys.executable, "-c", HOLD, str(self.folder / "log"), str(seconds), **machine)

    def log(self) -> list[dict]:
        path = self.folder / "log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def machine_of(settings: dict) -> Machine:
    return Machine(nodes=1, gpus=8, micro_batch=1, **settings)


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.01)
    return found


@pytest.mark.slow
def test_twelve_jobs_four_of_them_killed_never_meet_on_a_card(tmp_path):
    host, killed = Host(tmp_path, [A40] * 4), {}
    counts = [1, 2, 3, 4, 2, 1, 2, 3, 1, 4, 2, 1]
    jobs = [host.hold(count, 1000 if number % 3 == 0 else 0.05) for number, count in enumerate(counts)]
    for_ever = {job.pid for job in jobs[::3]}
    deadline = time.monotonic() + 120
    while any(job.poll() is None for job in jobs):
        assert time.monotonic() < deadline, f"still waiting after {host.log()}"
        for entry in host.log():
            if entry["pid"] in for_ever - killed.keys():
                killed[entry["pid"]] = time.monotonic()  # whoever has its cards next began after this moment
                os.kill(entry["pid"], signal.SIGKILL)
        time.sleep(0.02)
    for job in jobs:
        assert job.communicate() and job.returncode == (-signal.SIGKILL if job.pid in for_ever else 0)
    ends = killed | {entry["pid"]: entry["end"] for entry in host.log() if "end" in entry}
    on_card = defaultdict(list)
    for entry in host.log():
        if "start" in entry:
            cards = entry["cards"].split(",")
            assert len(set(cards)) == counts[[job.pid for job in jobs].index(entry["pid"])]
            for card in cards:
                on_card[card].append((entry["start"], ends[entry["pid"]]))
    assert set(on_card) == {"0", "1", "2", "3"} and sum(map(len, on_card.values())) == sum(counts)
    for turns in on_card.values():
        assert all(before[1] < after[0] for before, after in pairwise(sorted(turns)))


@pytest.mark.slow
def test_a_waiting_job_says_who_has_the_cards_can_be_stopped_and_goes_on_when_they_are_free(tmp_path):
    host = Host(tmp_path, [A40, {**A40, "pids": [4711]}])
    holder = host.hold(1, 1000)
    until(host.log)
    # as rule train's shell does, and what it starts inherits
    stopped, going_on = (
        subprocess.Popen(
            ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh", *host.words(1)],
            env=host.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    )
    line = f"gpus: waiting for 1: GPU 0 leased by process {holder.pid} in {Path.cwd()}; GPU 1 busy with process 4711"
    for job in (stopped, going_on):
        assert line in job.stderr.readline()
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(30) == -signal.SIGTERM
    holder.kill()
    assert going_on.communicate(timeout=30)[0].split() == ["0", "PCI_BUS_ID"]


@pytest.mark.slow
def test_a_lease_is_kept_by_torchrun_and_ends_with_it(tmp_path):
    """The launcher becomes torchrun, whose ranks see both cards; killed with -9, it leaves them."""
    (tmp_path / "rank.py").write_text(
        "import os, time\n"
        "from pathlib import Path\n"
        "mine = Path(__file__).with_name(f\"rank{os.environ['LOCAL_RANK']}\")\n"
        "mine.write_text(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "agent = os.getppid()\n"
        "while os.getppid() == agent:\n"
        "    time.sleep(0.05)\n"
    )
    (tmp_path / "torch").mkdir()
    for name, text in CUDA_TORCH.items():
        (tmp_path / "torch" / name).write_text(text)
    host = Host(tmp_path, [A40] * 3)
    host.env["FAKE_DRIVER"] = "580.65.06 13000"
    machine = host.words(2, gpus=2)[host.words(2).index("--machine") + 1]
    words = [sys.executable, "-m", "scripts.training.launch", "--machine", machine, "--threads", "1", "rank"]
    agent = subprocess.Popen(words, env=host.env, stderr=subprocess.DEVNULL)
    ranks = [tmp_path / "rank0", tmp_path / "rank1"]
    until(lambda: [path.read_text() for path in ranks if path.exists()] == ["0,1"] * 2)
    assert host.run(1).stdout.split()[0] == "2"
    waiting = host.start(2)
    assert f"waiting for 2: GPU 0 leased by process {agent.pid}" in waiting.stderr.readline()
    agent.kill()
    agent.wait()
    assert waiting.communicate(timeout=60)[0].split()[0] == "0,1"


@pytest.mark.slow
def test_cards_that_somebody_else_uses_are_passed_over_and_auto_takes_another_kind(tmp_path):
    """Also those of another container, whose processes do not show; what a desktop or the driver takes is no use."""
    cards = [{**A800, "pids": [4711]}, {**A800, "used_gib": 60}, {**A800, "used_gib": 0.4}, *MIXED[3:]]
    host = Host(tmp_path, cards)
    assert host.run(2, gpu_kind="A800").stdout.split()[0] == "2,3"
    assert host.run(2).stdout.split()[0] == "2,3"
    assert host.run(3).stdout.split()[0] == "4,5,6"
    assert host.run(3, gpu_ids=[6, 0, 2, 5]).stdout.split()[0] == "2,5,6"


@pytest.mark.parametrize(
    ("machine", "count", "groups"),
    [
        ({"gpu_kind": "A800"}, 2, [[0, 1, 2, 3]]),
        ({"gpu_kind": "a40"}, 4, [[4, 5, 6, 7]]),
        ({"gpu_kind": "auto"}, 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ({"gpu_kind": "auto", "gpu_memory_gib": 79.3}, 1, [[0, 1, 2, 3]]),
        ({"gpu_kind": "auto", "gpu_ids": [0, 1, 4, 5]}, 4, [[0, 1, 4, 5]]),
        ({"gpu_kind": "A40", "gpu_ids": [0, 1, 4, 5]}, 2, [[4, 5]]),
    ],
)
def test_which_cards_of_a_mixed_host_may_be_taken(machine, count, groups):
    assert [[card.index for card in group] for group in eligible(CARDS, machine_of(machine), count)] == groups


@pytest.mark.parametrize(
    ("machine", "count", "line"),
    [
        ({"gpu_kind": "A800"}, 5, "machine: gpus: 5 needed of kind A800; "),
        ({"gpu_kind": "auto"}, 8, "machine: gpus: 8 needed; "),
        ({"gpu_kind": "H100"}, 1, "machine: gpus: 1 needed of kind H100; "),
        ({"gpu_kind": "A4"}, 1, "machine: gpus: 1 needed of kind A4; "),
        ({"gpu_kind": "A40", "gpu_memory_gib": 79.3}, 1, "1 needed of kind A40 with 79.3 GiB or more; "),
        ({"gpu_kind": "auto", "gpu_ids": [0, 1]}, 4, "machine: gpus: 4 needed among 0, 1; "),
        ({"gpu_kind": "auto", "gpu_ids": [0, 9, 8]}, 1, "machine: gpu_ids: no GPU 8, 9; "),
    ],
)
def test_the_impossible_is_refused_at_once_with_what_there_is(machine, count, line):
    with pytest.raises(UserError) as refused:
        eligible(CARDS, machine_of(machine), count)
    assert str(refused.value).endswith(line + ON_HOST)


def test_an_impossible_request_is_one_line_also_where_there_is_no_driver_or_no_folder(tmp_path):
    host = Host(tmp_path, [A40])
    done = host.run(2, gpus=2)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: machine: gpus: 2 needed; this host has 1 NVIDIA A40 (0)\n"
    host.leases.write_text("no folder")
    done = host.run(1)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {host.leases}: not a folder, or a link; ")
    del host.env["FAKE_NVML"]
    done = host.run(1)
    assert done.stderr == ("error: machine: gpus: 1 needed, but no GPU is visible: NVML Shared Library Not Found\n")


@pytest.mark.parametrize("name", CHOSEN)
def test_cards_that_slurm_or_somebody_has_chosen_are_left_as_they_are(tmp_path, name):
    host = Host(tmp_path, [A40])
    host.env[name] = "7"
    done = host.run(9, sys.executable, "-c", "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))", gpus=9)
    assert done.stdout == ("7\n" if name == "CUDA_VISIBLE_DEVICES" else "None\n") and not host.leases.exists()


def test_a_machine_without_gpus_shows_none_and_leases_none(tmp_path):
    host = Host(tmp_path, [])
    done = host.run(1)
    assert done.stdout == " PCI_BUS_ID\n" and not host.leases.exists()


def test_the_leases_are_every_users_whatever_the_umask(tmp_path):
    host = Host(tmp_path, [A40])
    done = subprocess.run(["sh", "-c", 'umask 077; exec "$@"', "sh", *host.words(1)], env=host.env, check=False)
    assert done.returncode == 0
    assert host.leases.stat().st_mode & 0o7777 == 0o1777
    files = list(host.leases.iterdir())
    assert len(files) == 2 and all(file.stat().st_mode & 0o777 == 0o666 for file in files)


def test_what_a_host_has_is_told_by_name():
    assert f"this host has {described(CARDS)}" == ON_HOST and described([]) == "no GPU"


def test_a_card_that_nvml_cannot_read_is_skipped_with_a_line_and_the_others_are_leased(tmp_path):
    host = Host(tmp_path, [A40, {**A40, "sick": "GPU is lost"}, A40])
    done = host.run(2)
    assert done.stdout.split()[0] == "0,2"
    assert "gpus: GPU 1 skipped, NVML cannot read it: GPU is lost" in done.stderr
    done = host.run(3)
    assert done.returncode == 1 and done.stderr.endswith("3 needed; this host has 2 NVIDIA A40 (0, 2)\n")


def test_a_stopped_holder_of_the_gate_is_named_after_the_time_limit(tmp_path, monkeypatch):
    host = Host(tmp_path, [A40])
    assert host.run(1).returncode == 0
    holder = subprocess.Popen([sys.executable, "-c", HOLD_GATE, host.leases / GATE], stdout=subprocess.PIPE)
    holder.stdout.readline()
    holder.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(lease_folder, "GATE_LIMIT", 0.3)
    with pytest.raises(UserError, match=r"process 7 in /home/her\S* has held the lock on the leases for"):
        gpus.wait(host.leases, [[CARDS[0]]], 1)
    holder.kill()
    holder.wait()
    with lease_folder.opened_folder(host.leases) as folder, lease_folder.one_at_a_time(folder):
        pass  # free again


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "second name"])
def test_what_is_no_plain_file_in_the_place_of_a_lease_is_refused_and_not_written(tmp_path, kind):
    host, victim = Host(tmp_path, [A40]), tmp_path / "victim"
    assert host.run(1).returncode == 0
    lease = next(file for file in host.leases.iterdir() if file.name != GATE)
    lease.unlink()
    victim.write_text("dear")
    make = {"link": lease.symlink_to, "fifo": lambda _: os.mkfifo(lease), "folder": lambda _: lease.mkdir()}
    make.get(kind, lease.hardlink_to)(victim)
    done = host.run(1)
    assert done.returncode == 1 and f"error: {lease.name}: not a plain file in the lease folder" in done.stderr
    assert victim.read_text() == "dear"


@pytest.mark.slow
def test_a_link_or_another_users_own_folder_is_no_lease_folder(tmp_path):
    host, elsewhere = Host(tmp_path, [A40]), tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    host.leases.symlink_to(elsewhere)
    done = host.run(1)
    assert done.returncode == 1 and f"error: {host.leases}: not a folder, or a link" in done.stderr
    assert not list(elsewhere.iterdir())
    host.leases.unlink()
    host.leases.mkdir()
    if os.getuid() == 0:
        for mode, code in ((0o755, 1), (0o777, 1), (0o1777, 0)):
            host.leases.chmod(mode)
            os.chown(host.leases, 12345, 12345)
            done = host.run(1)
            assert done.returncode == code
            assert code == 0 or "owned by user 12345 and not shared" in done.stderr
