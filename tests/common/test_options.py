"""scripts/common/options.py: a script's options are the parameters of its function."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.common.options import given
from scripts.experiment.settings.training import Tokenizer


def make(
    out: Path,
    names: list[str],
    settings: Tokenizer,
    facts: dict[str, int],
    seed: int = 42,
    folder: Path | None = None,
    by_hand: bool = False,
    further: Sequence[Path] = (),
) -> None:
    """A function with every kind of parameter that the scripts have."""


REQUIRED = ["--out", "o", "--names", "a", "b", "--settings", '{"vocab_size": 300}', "--facts", '{"x": 1}']


def read(monkeypatch, *words: str) -> dict:
    monkeypatch.setattr("sys.argv", ["make", *words])
    return given(make)


def test_each_option_has_the_type_of_its_parameter_and_its_default(monkeypatch):
    found = read(monkeypatch, *REQUIRED)
    assert (found["out"], found["names"], found["facts"]) == (Path("o"), ["a", "b"], {"x": 1})
    assert found["settings"] == Tokenizer(vocab_size=300)
    assert (found["seed"], found["folder"], found["by_hand"], found["further"]) == (42, None, False, ())
    more = read(monkeypatch, *REQUIRED, "--seed", "7", "--folder", "f", "--by-hand", "--further", "c", "d")
    assert (more["seed"], more["folder"], more["by_hand"]) == (7, Path("f"), True)
    assert more["further"] == [Path("c"), Path("d")]
    assert read(monkeypatch, *REQUIRED, "--further")["further"] == []  # a rule may have none


def test_values_too_many_for_a_command_line_are_read_from_a_file(monkeypatch, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("--names\na b\nc\n")
    assert read(monkeypatch, *REQUIRED[:2], f"@{words}", *REQUIRED[5:])["names"] == ["a b", "c"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (REQUIRED[2:], "required: --out"),
        ([*REQUIRED[:3], *REQUIRED[5:]], "--names: expected at least one argument"),
        ([*REQUIRED, "--seed", "x"], "--seed: invalid int value: 'x'"),
        ([*REQUIRED[:-1], "{"], "--facts: invalid"),
        ([*REQUIRED, "--other", "1"], "unrecognized arguments: --other 1"),
    ],
)
def test_a_mistake_on_the_command_line_is_named_and_ends_with_2(words, said, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        read(monkeypatch, *words)
    assert ended.value.code == 2 and said in capsys.readouterr().err
