"""Generate with vLLM: as `generate` of transformers_engine.py, by an engine made for throughput.

    completions, engine = generate(folder, "bfloat16", encoder, positions, prompts, settings, seed, "/vllm/bin/python")

vLLM needs another torch than this environment has, so it runs in its own, which the machine file names (`vllm`). It
gets token ids and returns token ids; prompts are encoded and completions decoded here. Greedy completions equal those
of transformers except for near ties; sampled ones come from the same distribution with vLLM's own noise, one seed per
row.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.evaluation.generation.transformers_engine import Prompt, decode, rows_of
from scripts.experiment.settings.generation import Generation
from scripts.tokens.packing.encoder import Encoder

WORKER = Path(__file__).with_name("vllm_worker.py")
SAMPLING = {"max_new_tokens", "temperature", "top_p", "repetition_penalty"}


def run_worker(python: str, request: dict) -> dict:
    """Run the worker in vLLM's environment, and return its reply.

    Raises:
        UserError: there is no such Python, or vLLM failed; its own lines are above the error.
    """
    with tempfile.TemporaryDirectory() as folder:
        request_file, reply_file = Path(folder, "request.json"), Path(folder, "reply.json")
        # a copy: in its own folder, its neighbours would shadow Python's modules
        copy = shutil.copy(WORKER, folder)
        request_file.write_text(json.dumps(request))
        try:
            done = subprocess.run([python, copy, str(request_file), str(reply_file)])
        except OSError as error:
            raise UserError(
                f"{python}: {error.strerror}; `vllm` in the machine file names the Python of vLLM"
            ) from error
        if done.returncode or not reply_file.is_file():
            raise UserError(f"{python}: vLLM ended with exit code {done.returncode}; the lines above say why")
        return read_json(reply_file)


def generate(
    folder: Path,
    precision: str,
    encoder: Encoder,
    positions: int,
    prompts: list[Prompt],
    settings: Generation,
    seed: int,
    python: str,
) -> tuple[list[list[str]], dict]:
    """`settings.samples` completions per prompt, in the order of the prompts, and the engine's name and version.

    Args:
        precision: torch's name for the type of the weights in memory, e.g. `bfloat16`.
        positions: the model's number of positions.
        python: Python of vLLM's environment.

    Raises:
        UserError: see `rows_of` and `run_worker`.
    """
    rows = rows_of(encoder, prompts, settings, seed, positions)
    request = {
        "model": str(folder.resolve()),
        "precision": precision,
        **settings.model_dump(include=SAMPLING),
        "rows": [{"ids": row.ids, "ends": row.ends, "seed": row.seed} for row in rows],
    }
    reply = run_worker(python, request)
    texts = [decode(encoder, ids, row.ends) for ids, row in zip(reply["ids"], rows, strict=True)]
    completions = [texts[start : start + settings.samples] for start in range(0, len(rows), settings.samples)]
    return completions, {"name": "vllm", "version": reply["version"]}
