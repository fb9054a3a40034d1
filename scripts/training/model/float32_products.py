"""Float32 matrix products on a CPU by oneDNN, where they are as exact as torch's own.

    float32_products()      # "oneDNN", or "default": what is used from here on in this process

torch computes float32 products on a CPU with MKL, which takes its AVX2 path on AMD processors that have AVX-512.
The setting that allows products in bfloat16 sends them to oneDNN, which still computes in float32 on a processor that
has no instructions for bfloat16 products. Whether it does is asked of the processor, by one product beside the same in
float64: an error of 1e-6 is float32's, one of 4e-3 bfloat16's.
"""

from functools import cache

import torch

SIZE = 256  # of the matrices
LARGEST_ERROR = 1e-5  # relative, in the Frobenius norm


@cache
def float32_products() -> str:
    """Use oneDNN if its products are float32's; returns what is used."""
    settings = torch.backends.mkldnn.matmul
    if not torch.backends.mkldnn.is_available():
        return "default"
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(SIZE, SIZE, generator=generator) for _ in range(2))
    exact = first.double() @ second.double()
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    error = ((first @ second).double() - exact).norm() / exact.norm()
    if error < LARGEST_ERROR:
        return "oneDNN"
    settings.fp32_precision = before
    return "default"
