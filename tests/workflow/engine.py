"""llama.cpp itself, as a server on loopback: what others run a released model with."""

import json
import urllib.request
from pathlib import Path

import torch
import xllamacpp
from transformers import RepetitionPenaltyLogitsProcessor


class Engine:
    """llama.cpp's server with a GGUF file."""

    def __init__(self, path: Path):
        options = xllamacpp.CommonParams()
        options.model.path, options.n_ctx, options.n_parallel = str(path), 2048, 1
        options.port, options.hostnames = 0, ["127.0.0.1"]
        self.server = xllamacpp.Server(options)

    def ask(self, path: str, **body) -> dict:
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            self.server.listening_address + path, data, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)

    def complete(self, prompt: str, tokens: int, penalty: float = 1.0) -> list[int]:
        """The tokens of a greedy completion; the penalty counts all tokens before, as in transformers."""
        options = {"temperature": 0, "n_predict": tokens, "repeat_penalty": penalty, "repeat_last_n": 2000}
        return self.ask("/completion", prompt=prompt, return_tokens=True, **options)["tokens"]


def below_the_best(model, prompt: list[int], written: list[int], penalty: float = 1.0) -> float:
    """How far, in logits, the worst of the written tokens lies below the model's own choice at its place.

    A greedy text in weights of float16 may leave the one in float32 at a near tie, and only there.
    """
    ids = torch.tensor([[*prompt, *written]])
    with torch.inference_mode():
        logits = model(ids).logits[0]
    processor, worst = RepetitionPenaltyLogitsProcessor(penalty), 0.0
    for place in range(len(prompt), ids.shape[1]):
        choices = processor(ids[:, :place], logits[None, place - 1].clone())[0]
        worst = max(worst, float(choices.max() - choices[ids[0, place]]))
    return worst
