"""scripts/hosts/stopping.py: a signal ends a run whichever of its threads the kernel gives it to."""

import subprocess
import sys

WAIT = """
import signal, threading, time
from scripts.hosts.stopping import wait_in_turns

idle = threading.Thread(target=time.sleep, args=(60,), daemon=True)
idle.start()
threading.Timer(0.2, signal.pthread_kill, (idle.ident, signal.SIGINT)).start()
try:
    wait_in_turns(threading.Semaphore(0).acquire)
except KeyboardInterrupt:
    print("heard")
"""


def test_a_signal_that_another_thread_receives_is_heard():
    done = subprocess.run([sys.executable, "-c", WAIT], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "heard\n"
