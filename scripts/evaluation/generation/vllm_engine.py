"""What a model writes after each prompt, by vLLM: `generate` of generate.py by an engine made for throughput.

    written, engine = generate(folder, "bfloat16", encoder, positions, prompts, settings, "/path/to/vllm/bin/python")

vLLM wants another torch than this environment has, so it runs in one of its own, which the machine file names (`vllm`).
It is given token ids and gives token ids: prompts are encoded and texts decoded as ever. Greedy texts equal those of
transformers but for near ties; sampled ones are drawn from the same distribution with vLLM's own noise, one seed a row.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import read_json
from scripts.evaluation.generation.transformers_engine import Prompt, decode, rows_of
from scripts.tokens.packing.encoder import Encoder

WORKER = Path(__file__).with_name("vllm_worker.py")
ASKED = ("max_new_tokens", "temperature", "top_p", "repetition_penalty")


def generate(
    folder: Path,
    precision: str,
    encoder: Encoder,
    limit: int,
    prompts: list[Prompt],
    settings: dict,
    python: str,
) -> tuple[list[list[str]], dict]:
    """(`samples` texts for each prompt, in the order of the prompts; the engine's name and version).

    Args:
        precision: torch's name of the weights' type while it runs, e.g. `bfloat16`.
        limit: the model's positions.
        python: of vLLM's environment.

    Raises:
        UserError: what `rows_of` raises, there is no such Python, or vLLM failed; its own lines stand above.
    """
    rows, samples = rows_of(encoder, prompts, settings, limit), settings["samples"]
    request = {
        "model": str(folder.resolve()),
        "precision": precision,
        **{key: settings[key] for key in ASKED},
        "rows": [{"ids": row.ids, "ends": row.ends, "seed": row.seed} for row in rows],
    }
    with tempfile.TemporaryDirectory() as place:
        asked, out = Path(place, "request.json"), Path(place, "written.json")
        # where it lies, its neighbours would take the place of Python's own modules
        worker = shutil.copy(WORKER, place)
        asked.write_text(json.dumps(request))
        try:
            done = subprocess.run([python, worker, str(asked), str(out)])
        except OSError as error:
            raise UserError(
                f"{python}: {error.strerror}; `vllm` in the machine file names the Python of vLLM"
            ) from error
        if done.returncode or not out.is_file():
            raise UserError(f"{python}: vLLM ended with exit code {done.returncode}; its lines above say why")
        said = read_json(out)
    texts = [decode(encoder, ids, row.ends) for ids, row in zip(said["ids"], rows, strict=True)]
    written = [texts[start : start + samples] for start in range(0, len(rows), samples)]
    return written, {"name": "vllm", "version": said["version"]}
