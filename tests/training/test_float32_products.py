"""oneDNN computes float32 products only where they are float32's, by an error against float64."""

import pytest
import torch

from scripts.training.model import float32_products as module


@pytest.fixture(autouse=True)
def as_before():
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    module.float32_products.cache_clear()
    yield settings
    settings.fp32_precision = before
    module.float32_products.cache_clear()


def test_products_stay_as_exact_as_float32_whatever_is_chosen(as_before):
    chosen = module.float32_products()
    assert chosen == ("oneDNN" if as_before.fp32_precision == "bf16" else "default")
    torch.manual_seed(3)
    first, second = torch.randn(300, 576), torch.randn(576, 200)
    exact = first.double() @ second.double()
    assert float(((first @ second).double() - exact).norm() / exact.norm()) < 2e-6


def test_a_processor_that_computes_in_bfloat16_keeps_torchs_own_products(as_before, monkeypatch):
    product = torch.Tensor.__matmul__

    def in_bfloat16(self, other):
        if self.dtype == torch.float32 and as_before.fp32_precision == "bf16":
            return product(self.bfloat16().double(), other.bfloat16().double()).float()
        return product(self, other)

    monkeypatch.setattr(torch.Tensor, "__matmul__", in_bfloat16)
    before = as_before.fp32_precision
    assert module.float32_products() == "default" and as_before.fp32_precision == before
