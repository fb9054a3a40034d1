"""Run tasks of lm-eval with its own vLLM backend. Runs in vLLM's environment, so it imports nothing of this project.

    /path/to/vllm/bin/python scripts/evaluation/generation/harness_worker.py request.json reply.json

The request holds `lm_eval` (the version), `model` (arguments of the backend), `tasks` (name → whether lm-eval's own
tasks are needed to load it), `include_path`, `num_fewshot`, `limit`, `ids` and `chat`. The reply holds the versions
`lm_eval` and `vllm` and `samples`: by name and task, lm-eval's log of each item without its document. Another version
of lm-eval may prompt in another way, so its reply has nothing but that version.
"""

import json
import os
import sys
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}  # read when the libraries are imported

import lm_eval
from lm_eval.models.vllm_causallms import VLLM, version
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable


def main() -> None:
    request, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    reply = {"lm_eval": lm_eval.__version__}
    if reply["lm_eval"] == request["lm_eval"]:
        model = VLLM(**request["model"])
        samples = {}
        for name, defaults in request["tasks"].items():
            results = lm_eval.simple_evaluate(
                model,
                tasks=[name],
                task_manager=TaskManager(include_path=request["include_path"], include_defaults=defaults),
                num_fewshot=request["num_fewshot"],
                limit=request["limit"],
                samples=request["ids"],
                apply_chat_template=request["chat"],
                bootstrap_iters=0,
            )
            samples[name] = {
                task: [{key: value for key, value in item.items() if key not in ("doc", "resps")} for item in items]
                for task, items in results["samples"].items()
            }
        reply |= {"vllm": version("vllm"), "samples": samples}
    out.write_text(json.dumps(reply, default=handle_non_serializable))


if __name__ == "__main__":  # vLLM's processes import this file
    main()
