"""scripts/training/engine/parallel.py: a build that was killed does not keep later processes waiting, one that
runs does."""

import logging
import multiprocessing

from torch.utils.file_baton import FileBaton

from scripts.training.engine import parallel as deepspeed_builds

FORK = multiprocessing.get_context("fork")


def build(locks, ends):
    """A process that has begun to build and waits for `ends`, and whether it got each lock."""

    def work(answers):
        deepspeed_builds.clear_stale_locks()
        answers.put([FileBaton(str(lock)).try_acquire() for lock in locks])
        ends.wait()

    answers = FORK.Queue()
    process = FORK.Process(target=work, args=(answers,), daemon=True)
    process.start()
    return process, answers.get(timeout=60)


def test_a_killed_build_is_taken_over_and_a_running_one_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    locks = [tmp_path / name / "lock" for name in ("cpu_adam", "py311_cpu/shm_comm")]  # with and without that variable
    for lock in locks:
        lock.parent.mkdir(parents=True)
    never, at_once = FORK.Event(), FORK.Event()
    at_once.set()
    killed, got = build(locks, never)
    assert got == [True, True]
    assert build(locks, at_once)[1] == [False, False]  # beside one that runs, also started the same way
    killed.kill()
    killed.join()
    for lock in locks:
        assert lock.exists() and not FileBaton(str(lock)).try_acquire()  # what PyTorch would wait for, for good
    following, got = build(locks, at_once)
    following.join()
    assert got == [True, True] and following.exitcode == 0


def test_a_missing_build_folder_is_created(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "not/there"))
    deepspeed_builds.clear_stale_locks()
    assert (tmp_path / "not/there").is_dir()


def test_only_what_is_not_built_yet_is_announced(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    with caplog.at_level(logging.INFO):
        deepspeed_builds.log_missing_build("cpu_adam")
        (tmp_path / "py311_cpu/cpu_adam").mkdir(parents=True)
        (tmp_path / "py311_cpu/cpu_adam/cpu_adam.so").touch()
        deepspeed_builds.log_missing_build("cpu_adam")
    [line] = caplog.messages
    assert line.startswith(f"DeepSpeed compiles cpu_adam into {tmp_path}, once on this machine")
