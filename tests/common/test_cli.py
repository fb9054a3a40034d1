"""scripts/common/cli.py: how a program starts."""

import gc
import os
import subprocess
import sys
from pathlib import Path

from scripts.common.cli import run

ROOT = Path(__file__).parents[2]
COUNT = """
import atexit
import gc

atexit.register(lambda: print("searches", gc.get_stats()[0]["collections"] - before))
before = gc.get_stats()[0]["collections"]
"""


def test_starting_a_program_runs_almost_no_garbage_collection(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(COUNT)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-m", "scripts.training.launch", "--help"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout.rsplit("searches ", 1)[1]) < 3  # 50 without scripts/__init__.py


def test_garbage_collection_is_on_while_a_program_runs():
    was_on, states = gc.isenabled(), []
    gc.disable()
    try:
        run(lambda: states.append(gc.isenabled()))
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
    assert states == [True]


def test_an_import_by_another_program_leaves_garbage_collection_on():
    subprocess.run([sys.executable, "-c", "import scripts, gc; assert gc.isenabled()"], cwd=ROOT, check=True)


def test_a_refused_value_is_one_line_without_the_password_that_it_holds():
    source = '{"name": "x", "kind": "git", "pin": "1", "location": "https://me:secret@host/x.git"}'
    words = ["--sources", source, "--locations", "https://me:secret@host/x.git"]
    done = subprocess.run(
        [sys.executable, "-m", "scripts.sources.fetch", *words], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1 and "secret" not in done.stderr
    assert done.stderr.startswith("error: location: the URL has a user name or token") and done.stderr.count("\n") == 1


NOISE = """
import logging, sys, warnings
from scripts.common.cli import run

def main():
    message = "`is_gradient_checkpointing` is deprecated and will be removed in v6."
    warnings.warn(message, FutureWarning)
    warnings.warn("another one", FutureWarning)
    logger = logging.getLogger("DeepSpeed")
    logger.warning("Setting accelerator to CPU. If you have GPU or other accelerator, we were unable to detect it.")
    logger.warning("another line")

run(main)
"""


def test_lines_of_libraries_that_help_nobody_are_left_out_and_no_others():
    done = subprocess.run([sys.executable, "-c", NOISE], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "is_gradient_checkpointing" not in done.stderr and "accelerator" not in done.stderr
    assert "another one" in done.stderr and "another line" in done.stderr


def test_a_reader_that_has_seen_enough_ends_a_program_without_a_traceback():
    code = "from scripts.common.cli import run; run(lambda: [print('x' * 100) for _ in range(10_000)])"
    words = f'{sys.executable} -c "{code}" | head -1'
    done = subprocess.run(words, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "x" * 100 + "\n" and done.stderr == ""


def test_texts_are_utf_8_whatever_the_locale_of_the_user_is(tmp_path):
    write = "run(lambda: pathlib.Path(sys.argv[1]).write_text('\\u4e2d'))"
    write = f"import pathlib, sys; from scripts.common.cli import run; {write}"
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-c", write, str(tmp_path / "text")]
    subprocess.run(words, cwd=ROOT, env=os.environ | ascii_locale, check=True)
    assert (tmp_path / "text").read_bytes() == "中".encode()
