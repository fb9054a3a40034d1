"""A host with imitated GPUs, on which commands are leased some."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from scripts.hosts.gpus import CHOSEN, Card

A800, A40 = {"name": "NVIDIA A800 80GB PCIe", "memory_gib": 80.0}, {"name": "NVIDIA A40", "memory_gib": 44.99}
MIXED = [A800] * 4 + [A40] * 4
CARDS = [Card(index, f"GPU-{index}", card["name"], card["memory_gib"]) for index, card in enumerate(MIXED)]
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


class Host:
    """A host with the cards `found`, on which commands are leased some."""

    def __init__(self, folder: Path, gpus: list[dict]):
        self.folder, self.gpus, self.leases = folder, gpus, folder / "leases"
        clean = {name: value for name, value in os.environ.items() if name not in CHOSEN}
        path = {"PYTHONPATH": f"{Path(__file__).parent / 'nvml'}:{Path.cwd()}:{folder}"}
        self.env = {**clean, **path, "FAKE_NVML": json.dumps(gpus), "STAGECRAFT_GPU_LEASES": str(self.leases)}

    def words(self, count: int, *program: str, **machine) -> list[str]:
        path = self.folder / f"{len(list(self.folder.glob('*.yaml')))}.yaml"
        path.write_text(yaml.safe_dump({"nodes": 1, "gpus": len(self.gpus), "micro_batch_size": 1, **machine}))
        module = [sys.executable, "-m", "scripts.hosts.gpus", "--machine", str(path), "--count", str(count)]
        return [*module, *(program or (sys.executable, "-c", SAY))]

    def start(self, *options, **machine) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(self.words(*options, **machine), env=self.env, **pipes)

    def run(self, *options, **machine) -> subprocess.CompletedProcess:
        words = self.words(*options, **machine)
        return subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60, check=False)

    def hold(self, count: int, seconds: float, **machine) -> subprocess.Popen:
        return self.start(count, sys.executable, "-c", HOLD, str(self.folder / "log"), str(seconds), **machine)

    def log(self) -> list[dict]:
        path = self.folder / "log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
