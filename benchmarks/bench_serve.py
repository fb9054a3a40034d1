"""`stagecraft serve` on this machine: time to the first token and tokens per second, with 1 and 4 clients.

    python -m benchmarks.bench_serve config/config.yaml own      # of an experiment that has been run; stores serve.json

Each client asks for places of held-out files, streamed, one after the other. Also stored: what `stagecraft try` takes
at a place with the server running.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from benchmarks.figures import Value, store
from scripts.common.files import read_jsonl
from scripts.experiment.layout import Layout, split_file
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml

PROMPT = "# scripts/common/files.py\ndef read_json(path):\n    "
TOKENS, REQUESTS = 32, 4  # of an answer, and of each client


def places(layout: Layout) -> list[tuple[str, str]]:
    """(path, text before a place) in the middle of held-out files."""
    found = []
    for document in read_jsonl(split_file(layout.dataset("own"), "test")):
        lines = document["text"].splitlines(keepends=True)
        found.append((document["id"], "".join(lines[: len(lines) // 2])))
    return found


def ask(port: int, path: str, text: str) -> tuple[float, float, int]:
    """(seconds to the first token, seconds in all, tokens) of a streamed completion."""
    body = {"prompt": text, "user": path, "max_tokens": TOKENS, "stream": True}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode())
    start, first, count = time.perf_counter(), 0.0, 0
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                first = first or time.perf_counter() - start
                count += 1
    return first, time.perf_counter() - start, count


def measure(port: int, clients: int, asked: list[tuple[str, str]]) -> tuple[float, float]:
    """(median seconds to the first token, tokens per second of all clients together)."""
    answers = []

    def client(number: int) -> None:
        for path, text in asked[number * REQUESTS : (number + 1) * REQUESTS]:
            answers.append(ask(port, path, text))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    return statistics.median(first for first, _, _ in answers), sum(count for _, _, count in answers) / seconds


def main() -> None:
    file, stage, *more = sys.argv[1:]
    layout = Layout(Path(load_experiment(read_yaml(Path(file)), file).results))
    words = [sys.executable, "-m", "scripts.cli"]
    server = subprocess.Popen(
        [*words, "serve", stage, "--experiment", file, "--port", "0", *more], stdout=subprocess.PIPE, text=True
    )
    try:
        port = 0
        while not port:
            line = server.stdout.readline()
            if "http://127.0.0.1:" in line:
                port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
        asked = places(layout)
        ask(port, *asked[0])  # what is made once
        values, rows = {}, [["clients", "first token (s, median)", "tokens per second"]]
        for clients in (1, 4):
            first, rate = measure(port, clients, asked)
            rows.append([clients, round(first, 2), round(rate, 1)])
            values |= {f"first_{clients}": Value(round(first, 2), " s"), f"rate_{clients}": Value(round(rate, 1))}
        if stage != "base":
            start = time.perf_counter()
            line = [*words, "try", stage, "--at", "scripts/cli.py:60", "--experiment", file]
            subprocess.run(line, check=True, capture_output=True)
            values["try"] = Value(round(time.perf_counter() - start, 1), " s", "one place, both ways, with its start")
        session = [["asked by curl", "answered"]]
        for name in (stage, f"{stage}-alone"):
            body = json.dumps({"model": name, "prompt": PROMPT, "max_tokens": 24})
            line = ["curl", "-s", f"http://127.0.0.1:{port}/v1/completions", "-d", body]
            answer = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
            session.append([f"`{body}`", f"`{json.dumps(answer['choices'][0]['text'])}`"])
    finally:
        server.terminate()
        server.wait()
    name, engine = "serve", "torch, float32"
    if more:
        name, engine = "serve-gguf", f"llama.cpp, {Path(more[-1]).name}"
    about = f"{stage} of {file}, {TOKENS} tokens an answer, by {engine}"
    store(name, values, about, {"clients": rows, "session": session})


if __name__ == "__main__":
    main()
