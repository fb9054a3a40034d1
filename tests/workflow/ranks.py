"""What scripts/training/launch.py starts in a test: each rank meets the others once and writes who it is.

python -m scripts.training.launch --machine FILE --threads 2 tests.workflow.ranks --out FOLDER
"""

import argparse
import json
import os
import socket
from pathlib import Path

import torch

NAMES = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME"]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--machine")
    arguments.add_argument("--threads")
    arguments.add_argument("--out", type=Path)
    out = arguments.parse_args().out
    torch.distributed.init_process_group("gloo")
    number = torch.tensor(2 ** int(os.environ["RANK"]))
    torch.distributed.all_reduce(number)
    facts = {name: os.environ.get(name) for name in NAMES} | {"sum": int(number), "host": socket.gethostname()}
    # a second copy of a rank would fail here
    with (out / f"{facts['RANK']}.json").open("x") as file:
        json.dump(facts, file)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
