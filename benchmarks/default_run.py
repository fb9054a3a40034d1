"""The default experiment from nothing, in a clone without results: how long it takes, and what it answers.

python -m benchmarks.default_run      # stores docs/figures/default.json; `make docs` writes it into the README
"""

import resource
import subprocess
import time
from pathlib import Path

from benchmarks.figures import Value, store
from scripts.common.files import read_json


def main() -> None:
    if Path("results/eval.json").exists():
        raise SystemExit("results/eval.json is there already: run this in a fresh clone")
    start = time.monotonic()
    subprocess.run(["snakemake", "--profile", "local", "results/eval.json"], check=True)
    minutes = round((time.monotonic() - start) / 60, 1)
    gigabytes = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9, 1)  # of the largest process
    question = read_json(Path("results/eval.json"))["question"]
    conditions = [["condition", "bits per byte", "95% interval"]]
    for row in question["conditions"]:
        low, high = row["interval"]
        conditions.append([row["name"], f"{row['value']:.3f}", f"{low:.3f} to {high:.3f}"])
    tables = {"answer": [["the first sentence"], [question["sentence"]]], "conditions": conditions}
    about = (
        "environment installed; two cores, fp32; base and networkx downloaded; Holm's correction over the differences"
    )
    store("default", {"minutes": Value(minutes, " minutes"), "memory": Value(gigabytes, " GB")}, about, tables)


if __name__ == "__main__":
    main()
