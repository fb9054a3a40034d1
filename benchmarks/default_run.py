"""The default experiment from nothing, in a clone without results: how long it takes, and what it answers.

python -m benchmarks.default_run            # stores docs/figures/default.json; `make docs` writes it into the README
python -m benchmarks.default_run hour       # of config/examples/own-code-hour.yaml: docs/figures/hour.json
"""

import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Value, store
from scripts.common.files import read_json

RUNS = {  # name → (experiment file, last file of its run)
    "default": ("config/config.yaml", "results/own-code/eval.json"),
    "hour": ("config/examples/own-code-hour.yaml", "results/own-code-hour/eval.json"),
}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "default"
    file, written = RUNS[name]
    if Path(written).exists():
        raise SystemExit(f"{written} is there already: run this in a fresh clone")
    start = time.monotonic()
    subprocess.run(["snakemake", "--profile", "local", written, "--configfile", file], check=True)
    minutes = round((time.monotonic() - start) / 60, 1)
    question = read_json(Path(written))["question"]
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    conditions = [["condition", "bits per byte", "95% interval", "lines as they stand", "characters not typed"]]
    for row in question["conditions"]:
        low, high = row["interval"]
        shares = [f"{row[name]['value']:.1%}" for name in ("lines", "typing_saved")]
        conditions.append([row["name"], f"{row['value']:.3f}", f"{low:.3f} to {high:.3f}", *shares])
    tables = {"answer": [["the first sentence"], [question["sentence"]]], "conditions": conditions}
    processor = Path("/proc/cpuinfo").read_text()
    (model,) = {line.partition(": ")[2] for line in processor.splitlines() if "model name" in line}
    widest = "with" if "avx512f" in processor else "without"
    about = f"environment installed; two cores of {model} {widest} AVX-512, fp32; base and networkx downloaded"
    values = {
        "minutes": Value(minutes, " minutes"),
        "processor": Value(round(usage.ru_utime + usage.ru_stime), " s"),
        "memory": Value(round(usage.ru_maxrss * 1024 / 1e9, 1), " GB"),  # of the largest process
    }
    store(name, values, about, tables)


if __name__ == "__main__":
    main()
