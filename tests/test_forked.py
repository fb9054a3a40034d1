"""tests/forked.py: a forked program does what a started one does."""

import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from tests import forked

TELL = """
import os, sys, torch
print(sys.argv[1:], __name__, os.environ["TELL"], os.getcwd(), torch.get_num_threads() > 0, flush=True)
print("to stderr", file=sys.stderr)
os.execvp(sys.executable, [sys.executable, "-m", "scripts.evaluation.suites.perplexity", "--model", "none"])
"""


@pytest.mark.slow
def test_arguments_environment_output_and_exit_code_are_those_of_a_started_program(tmp_path):
    (tmp_path / "tell.py").write_text(TELL)
    words = [sys.executable, "-m", "tell", "a", "b c"]
    path = os.pathsep.join([str(tmp_path), str(forked.ROOT)])
    environment = os.environ | {"TELL": "it", "PYTHONPATH": path}
    started = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    done = forked.run(words, environment, tmp_path)
    assert started.returncode == 2 and "the following arguments are required" in started.stderr
    assert (done.returncode, done.stdout, done.stderr) == (started.returncode, started.stdout, started.stderr)


@pytest.mark.slow
def test_ranks_meet_and_the_first_exit_code_that_is_not_0_counts(tmp_path):
    (tmp_path / "meet.py").write_text(
        "import os, sys, torch\n"
        "torch.distributed.init_process_group('gloo')\n"
        "total = torch.ones(1)\n"
        "torch.distributed.all_reduce(total)\n"
        "print(int(total))\n"
        "sys.exit(3 * int(os.environ['RANK']))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = forked.run_ranks([sys.executable, "-m", "meet"], 2, environment)
    assert (done.returncode, done.stdout) == (3, "2\n2\n"), done.stderr


@pytest.mark.slow
def test_code_is_that_of_the_folder_however_little_of_it_differs(tmp_path):
    shutil.copytree(forked.ROOT / "scripts", tmp_path / "scripts")
    program = (
        "from scripts.common import text; from scripts.cli_options import ROOT; print(ROOT, vars(text).get('NEW'))"
    )

    def said() -> str:
        return subprocess.run([forked.python(), "-c", program], cwd=tmp_path, capture_output=True, text=True).stdout

    assert said() == f"{tmp_path} None\n"
    with (tmp_path / "scripts/common/text.py").open("a") as file:
        file.write("NEW = 1\n")
    assert said() == f"{tmp_path} 1\n"


@pytest.mark.slow
def test_the_python_of_forks_behaves_like_a_real_one_for_its_caller(tmp_path):
    (tmp_path / "scripts").mkdir()  # what a program imports is what lies in its own folder
    (tmp_path / "scripts/here.py").write_text(
        "import os, sys\nprint(__file__, sys.argv, os.getppid(), os.umask(0), sys.stdin.read())\nsys.exit(7)\n"
    )
    words = ["-m", "scripts.here", "a", "b c"]
    real, fork = (
        subprocess.run([python, *words], cwd=tmp_path, input="text", capture_output=True, text=True, umask=0o027)
        for python in (sys.executable, forked.python())
    )
    assert (real.returncode, real.stdout, real.stderr) == (fork.returncode, fork.stdout, fork.stderr)
    assert fork.returncode == 7 and f" {os.getpid()} " in fork.stdout


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_fork_and_the_process_that_stands_for_it(number):
    words = ["-c", "import time; print('ready', flush=True); time.sleep(60)"]
    with subprocess.Popen([forked.python(), *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(20) == -number
        assert process.stdout.read() == ""  # its other end is closed only with the fork


@pytest.mark.slow
def test_environment_variables_that_python_reads_at_its_start_have_their_effect():
    words = ["-c", "import sys; print(sys.flags.optimize)"]
    environment = os.environ | {"PYTHONOPTIMIZE": "2"}
    done = subprocess.run([forked.python(), *words], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"


def test_an_event_of_a_connection_that_another_event_has_just_closed_ends_no_server(monkeypatch):
    """A program that ends while whoever asked for it is killed gives both events at once."""
    (listener, _), (owner, _), (asking, _), (end, _) = pairs = [socket.socketpair() for _ in range(4)]
    server, called = forked.Server(listener, owner), []

    def close_both() -> None:
        called.append("end")
        server.selector.unregister(asking)
        asking.close()

    server.selector.register(asking, selectors.EVENT_READ, lambda: called.append("asking"))
    server.selector.register(end, selectors.EVENT_READ, close_both)
    keys = [server.selector.get_key(source) for source in (end, asking, owner)]
    monkeypatch.setattr(server.selector, "select", lambda: [(key, 0) for key in keys])
    with pytest.raises(SystemExit):  # as the owner ends
        server.run()
    assert called == ["end"]
    for pair in pairs:
        for side in pair:
            side.close()
