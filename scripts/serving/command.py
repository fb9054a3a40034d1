"""What `stagecraft serve` does: the model of a stage, the files that are watched, and what an editor needs to know."""

import os
import sys
import threading
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.layout import Layout
from scripts.experiment.load import experiment_in_use
from scripts.hosts.hardware import gpu_driver, sleep_while_waiting
from scripts.serving.assistant import Assistant, check_trained
from scripts.serving.server import check_port, read_key
from scripts.serving.server import serve as serve_assistant
from scripts.serving.watched import watch_for_ever

EDITORS = """\
{model} of {experiment} at http://{host}:PORT/v1 ({retrieval}); Ctrl-C ends it

    curl http://{host}:PORT/v1/completions -d '{{"prompt": "def area(width):\\n    ", "max_tokens": 32}}'

Continue, in ~/.continue/config.yaml (VS Code and JetBrains):

    models:
      - name: {model}
        provider: openai
        model: {model}
        apiBase: http://{host}:PORT/v1
        apiKey: {key}
        roles: [autocomplete, chat]

aider:

    aider --openai-api-base http://{host}:PORT/v1 --openai-api-key {key} --model openai/{model}
"""


def serve(
    profile: str,
    configfile: Path | None,
    stage: str | None,
    host: str,
    port: int,
    key_file: Path | None,
    retrieval: bool,
    watched: Path | None,
    gguf: Path | None,
) -> None:
    """Serve a stage until Ctrl-C. Raises UserError: it is not trained yet, the port is taken, others could reach it
    without a key, or the watched folder is none."""
    key = read_key(host, key_file)
    check_port(host, port)
    experiment = experiment_in_use(profile, configfile)
    layout, stages = Layout(Path(experiment.results)), list(experiment.training.train)
    stage = stage or stages[0]
    if stage not in ("base", *stages):
        raise UserError(f"{stage}: no such stage; known: base, {', '.join(stages)}")
    if watched and not watched.is_dir():
        raise UserError(f"--watch {watched}: no such folder")
    check_trained(layout, stage)
    if gpu_driver() is None:
        sleep_while_waiting(gpus=0)  # before torch is loaded
    print("loading the model ...", flush=True)
    assistant = Assistant(experiment, layout, stage, retrieval, gguf)
    if watched:
        threading.Thread(
            target=watch_for_ever, args=(watched, experiment.corpus.filter, assistant), daemon=True
        ).start()
    found = (
        f"retrieves from {len(assistant.pieces.pieces):,} pieces" if assistant.pieces.pieces else "retrieves nothing"
    )
    shown = f"[{host}]" if ":" in host else host  # as a URL has an address of IPv6
    facts = {"model": stage, "experiment": experiment.experiment, "host": shown, "retrieval": found}
    lines = EDITORS.format(**facts, key="KEY" if key else "none")
    serve_assistant(assistant, host, port, key, layout.served, [lines])
    sys.stdout.flush()
    os._exit(0)  # at once: Python takes seconds to take torch down
