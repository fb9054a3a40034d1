"""scripts/hosts/gpus.py: jobs never meet on a card, a dead one's cards are free, the impossible is refused at once."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.hosts.gpus import CHOSEN, eligible
from tests.hosts.leasing import A40, A800, CARDS, MIXED, Host

ON_HOST = "this host has 4 NVIDIA A800 80GB PCIe (0, 1, 2, 3), 4 NVIDIA A40 (4, 5, 6, 7)"
# what Python finds as torch: another version.py, as of a build for CUDA; imported, it is the real torch
CUDA_TORCH = {
    "version.py": "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n",
    "__init__.py": "import sys\nfrom pathlib import Path\nsys.path.remove(str(Path(__file__).parents[1]))\n"
    "del sys.modules['torch']\nimport torch\n",
}


def machine_of(settings: dict) -> Machine:
    return Machine(nodes=1, gpus=8, micro_batch_size=1, **settings)


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.01)
    return result


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
def test_the_leases_are_every_users_whatever_the_umask_and_a_link_in_their_place_is_not_followed(tmp_path):
    host = Host(tmp_path, [A40])
    done = subprocess.run(["sh", "-c", 'umask 077; exec "$@"', "sh", *host.words(1)], env=host.env, check=False)
    assert done.returncode == 0 and host.leases.stat().st_mode & 0o7777 == 0o1777
    files = list(host.leases.iterdir())
    assert len(files) == 2 and all(file.stat().st_mode & 0o777 == 0o666 for file in files)
    for file in files:
        file.unlink()
        file.symlink_to(tmp_path / "victim")
    assert host.run(1).returncode == 1 and not (tmp_path / "victim").exists()


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
def test_the_machine_file_decides_which_cards_of_a_mixed_host_may_be_taken(machine, count, groups):
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
def test_a_request_that_the_host_can_never_meet_is_refused_at_once_with_a_list_of_its_gpus(machine, count, line):
    with pytest.raises(UserError) as refused:
        eligible(CARDS, machine_of(machine), count)
    assert str(refused.value).endswith(line + ON_HOST)


def test_an_impossible_request_is_a_one_line_error_also_where_there_is_no_driver_or_no_folder(tmp_path):
    host = Host(tmp_path, [A40])
    done = host.run(2, gpus=2)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: machine: gpus: 2 needed; this host has 1 NVIDIA A40 (0)\n"
    host.leases.write_text("no folder")
    done = host.run(1)
    assert done.stderr == f"error: {host.leases}: File exists; STAGECRAFT_GPU_LEASES names another folder\n"
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


def test_a_card_that_nvml_cannot_read_is_skipped_with_a_line_and_the_others_are_leased(tmp_path):
    host = Host(tmp_path, [A40, {**A40, "sick": "GPU is lost"}, A40])
    done = host.run(2)
    assert done.stdout.split()[0] == "0,2"
    assert "gpus: GPU 1 skipped, NVML cannot read it: GPU is lost" in done.stderr
    done = host.run(3)
    assert done.returncode == 1 and done.stderr.endswith("3 needed; this host has 2 NVIDIA A40 (0, 2)\n")
