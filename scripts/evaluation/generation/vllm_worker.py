"""Generate with vLLM for rows of token ids. Runs in vLLM's own environment, so it imports nothing of this project.

    /path/to/vllm/bin/python scripts/evaluation/generation/vllm_worker.py request.json reply.json

The request holds `model` (folder), `precision`, `max_new_tokens`, `temperature`, `top_p`, `repetition_penalty` and
`rows`, each with `ids`, `ends` and `seed`; the reply holds vLLM's `version` and `ids`, a list for each row.
"""

import json
import sys
from pathlib import Path

import vllm


def main() -> None:
    request, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    new, rows = request["max_new_tokens"], request["rows"]
    engine = vllm.LLM(
        model=request["model"],
        dtype=request["precision"],
        skip_tokenizer_init=True,
        generation_config="vllm",  # not the folder's own defaults
        max_model_len=max(len(row["ids"]) for row in rows) + new,
    )
    sampling = [
        vllm.SamplingParams(
            temperature=request["temperature"],
            top_p=request["top_p"],
            repetition_penalty=request["repetition_penalty"],
            max_tokens=new,
            seed=row["seed"],
            stop_token_ids=row["ends"],
            detokenize=False,
        )
        for row in rows
    ]
    results = engine.generate([{"prompt_token_ids": row["ids"]} for row in rows], sampling)
    ids = [list(result.outputs[0].token_ids) for result in results]
    out.write_text(json.dumps({"version": vllm.__version__, "ids": ids}))


if __name__ == "__main__":  # vLLM's processes import this file
    main()
