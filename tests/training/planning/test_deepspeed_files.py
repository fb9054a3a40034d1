"""The files in config/deepspeed divide memory and messages; what changes a number in them is refused."""

import json

import pytest

from scripts.common.errors import UserError
from scripts.training.planning.checks import check_deepspeed


@pytest.mark.parametrize("sharding", ["zero2", "zero3"])
def test_the_shipped_files_are_read(sharding):
    assert check_deepspeed(sharding)["zero_optimization"]["stage"] == int(sharding[-1])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"gradient_clipping": 0.1}, 'zero2.json: gradient_clipping: must be "auto"'),
        ({"data_types": {"grad_accum_dtype": "bf16"}}, 'zero2.json: data_types: must be "auto"'),
        ({"bf16": {"enabled": True}}, 'zero2.json: bf16: must be "auto"'),
        (
            {"zero_optimization": {"stage": 2, "offload_optimizer": {}}},
            "no 'offload_optimizer' here",
        ),
    ],
)
def test_what_changes_a_number_is_one_line(tmp_path, monkeypatch, change, line):
    settings = check_deepspeed("zero2")
    monkeypatch.setattr("scripts.training.planning.checks.DEEPSPEED", tmp_path)
    (tmp_path / "zero2.json").write_text(json.dumps(settings | {"steps_per_print": 5}))
    check_deepspeed("zero2")
    (tmp_path / "zero2.json").write_text(json.dumps(settings | change))
    with pytest.raises(UserError, match=line):
        check_deepspeed("zero2")
