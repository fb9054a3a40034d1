"""What test_gradient_sums.py starts on each rank: how far DeepSpeed's sum of a step's gradients is from the exact sum.

python -m tests.training.engine.gradient_sums SHARDING OFFLOAD GRAD_ACCUM_DTYPE
"""

import json
import sys

import deepspeed
import torch
from deepspeed.utils import safe_get_full_grad

from scripts.training.engine import parallel
from tests.training.conftest import machine

PASSES, WIDTH = 16, 64


def main() -> None:
    sharding, offload, kind = sys.argv[1:]
    settings = machine(sharding=sharding, offload=offload == "True", cpu_ranks=2, grad_accum_dtype=kind)
    parallel.start_process_group(settings)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)))
    batch = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": PASSES}
    config = parallel.deepspeed_settings(settings) | batch
    config |= {"train_batch_size": 2 * PASSES, "gradient_clipping": 0.0, "bf16": {"enabled": True}}
    config |= {"zero_force_ds_cpu_optimizer": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    weights = [weight.detach().clone() for weight in engine.module.parameters()]
    random = torch.Generator().manual_seed(torch.distributed.get_rank())
    exact = [torch.zeros(WIDTH, WIDTH, dtype=torch.float64) for _ in weights]
    for number in range(PASSES):
        rows = torch.randn(8, WIDTH, generator=random).bfloat16()
        engine.backward((engine(rows).float() ** 2).mean())
        copies = [weight.clone().requires_grad_() for weight in weights]
        out = torch.nn.functional.linear(torch.nn.functional.linear(rows, copies[0]), copies[1])
        for total, gradient in zip(exact, torch.autograd.grad((out.float() ** 2).mean(), copies), strict=True):
            total += gradient.double() / (2 * PASSES)
        if number < PASSES - 1:
            engine.step()
    for total in exact:
        torch.distributed.all_reduce(total)
    gradients = [safe_get_full_grad(weight).double() for weight in engine.module.parameters()]
    errors = [((ours - total).norm() / total.norm()).item() for ours, total in zip(gradients, exact, strict=True)]
    sums = engine.optimizer.averaged_gradients.get(0) or []
    held = {str(part.dtype): sum(tensor.numel() for tensor in sums if tensor.dtype == part.dtype) for part in sums}
    engine.step()
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"error": max(errors), "held": held}))
    parallel.barrier_and_destroy()


if __name__ == "__main__":
    main()
