"""A released GGUF file run by llama.cpp, in the place of the model in torch: quantized weights, and a kept prompt.

    engine = LlamaCpp(Path("own-q8_0.gguf"))
    ids = engine.write(start.ids, start.due, start.ends, 64, temperature=0, top_p=1, seed=0, told=lambda ids: False)

llama.cpp gets the ids of our own encoder, never a prompt's text, so its prompt is the measured one. What was taken back
of a prompt's end is asked for by a grammar. Its rounding is its own: a near tie may be decided otherwise than in the
report. The package is xllamacpp (`uv pip install xllamacpp`).
"""

import importlib.util
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

from scripts.common.errors import UserError

CONTEXT = 8192  # tokens at most, of a prompt and its answer


def grammar_for(due: bytes) -> str:
    """A grammar of llama.cpp's whose texts begin with these bytes; empty where they are none, or not whole."""
    try:
        text = due.decode()
    except UnicodeDecodeError:
        return ""
    return f"root ::= {json.dumps(text, ensure_ascii=False)} [^\\x00]*" if text else ""


class LlamaCpp:
    """llama.cpp's server, within this process, on the loopback address. Raises UserError: the package is not installed,
    or the file cannot be loaded."""

    def __init__(self, file: Path):
        if importlib.util.find_spec("xllamacpp") is None:
            raise UserError("--gguf needs the package xllamacpp: `uv pip install xllamacpp`")
        if not file.is_file():
            raise UserError(
                f"--gguf {file}: no such file; `release: {{gguf: [q8_0]}}` and `stagecraft release` write one"
            )
        import xllamacpp

        options = xllamacpp.CommonParams()
        options.model.path, options.n_ctx, options.n_parallel = str(file), CONTEXT, 1
        options.port, options.hostnames, options.verbosity = 0, ["127.0.0.1"], -1  # nothing of a prompt is logged
        try:
            self.server = xllamacpp.Server(options)
        except RuntimeError as error:
            raise UserError(f"--gguf {file}: llama.cpp cannot load it: {error}") from error

    def write(
        self,
        ids: list[int],
        due: bytes,
        ends: list[int],
        tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
        told: Callable[[list[int]], bool],
    ) -> list[int]:
        """The ids that follow, at most `tokens`, up to one of `ends`.

        Args:
            due: the bytes that they spell first.
            told: called with the ids so far; True ends it.
        """
        body = {"prompt": ids, "n_predict": tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
        body |= {"stream": True, "return_tokens": True, "cache_prompt": True, "grammar": grammar_for(due)}
        address = f"{self.server.listening_address}/completion"
        request = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
        written: list[int] = []
        with urllib.request.urlopen(request) as reply:  # leaving it ends llama.cpp's work on it
            for line in reply:
                if not line.startswith(b"data: {"):
                    continue
                part = json.loads(line[6:])
                for token in part.get("tokens", []):
                    written.append(token)
                    if token in ends or told(written):
                        return written
                if part.get("stop"):
                    break
        return written
