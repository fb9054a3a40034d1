"""scripts/training/engine/parallel.py: a build that was killed does not keep later processes waiting, one that
runs does."""

import logging
import signal
import subprocess
import sys

from torch.utils.file_baton import FileBaton

from scripts.training.engine import parallel as deepspeed_builds

BUILD = """
import sys, time
from torch.utils.file_baton import FileBaton
from scripts.training.engine import parallel as deepspeed_builds
deepspeed_builds.clear_stale_locks()
print(FileBaton(sys.argv[1]).try_acquire(), flush=True)
time.sleep(float(sys.argv[2]))
"""


def build(lock, seconds):
    """A process that has begun to build."""
    process = subprocess.Popen([sys.executable, "-c", BUILD, lock, str(seconds)], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def test_a_killed_build_is_taken_over_and_a_running_one_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    for name in ("cpu_adam", "py311_cpu/shm_comm"):  # as they lie with and without that variable
        (tmp_path / name).mkdir(parents=True)
        lock = tmp_path / name / "lock"
        killed, got = build(lock, 60)
        assert got == "True"
        assert build(lock, 0)[1] == "False"  # beside one that runs, also started the same way
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert lock.exists() and not FileBaton(str(lock)).try_acquire()  # what PyTorch would wait for, for good
        following, got = build(lock, 0)
        assert got == "True"
        assert following.wait() == 0
        lock.unlink()


def test_a_missing_build_folder_is_created(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "not/there"))
    deepspeed_builds.clear_stale_locks()
    assert (tmp_path / "not/there").is_dir()


def test_only_what_is_not_built_yet_is_announced(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    (tmp_path / "py311_cpu/cpu_adam").mkdir(parents=True)
    (tmp_path / "py311_cpu/cpu_adam/cpu_adam.so").touch()
    with caplog.at_level(logging.INFO):
        deepspeed_builds.log_missing_builds(["deepspeed_shm_comm", "cpu_adam"])
    [line] = caplog.messages
    assert line.startswith(f"DeepSpeed compiles deepspeed_shm_comm into {tmp_path}, once on this machine")
