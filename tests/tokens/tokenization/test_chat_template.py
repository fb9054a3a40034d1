"""scripts/tokens/tokenization/chat_template.py and base_tokenizer.py: the templates of four families of models give
what transformers gives, and a base that lacks a template or a token is refused before the first job."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import trl
from transformers import AutoTokenizer

from scripts.common.errors import UserError
from scripts.experiment.settings.corpus import CodeDataset, InstructDataset
from scripts.tokens.tokenization.base_tokenizer import check_base_tokenizer, write_chat_template
from scripts.tokens.tokenization.encoder import Encoder

FAMILIES = Path(trl.__file__).parent / "chat_templates"  # the models' own
# what SmolLM3's needs that the others do not: the date, an instruction trimmed on its right, and a tag of transformers
SMOLLM3 = """\
{{- "<|im_start|>system\\nToday Date: " ~ strftime_now("%d %B %Y") ~ "\\n\\n" -}}
{%- if messages[0].role == "system" -%}{{- messages[0].content.rstrip() + "\\n\\n" -}}{%- endif -%}
{{- "<|im_end|>\\n" -}}
{%- for message in messages -%}
{%- set content = message.content if message.content is string else "" -%}
{%- if message.role == "user" -%}{{ "<|im_start|>user\\n" + content + "<|im_end|>\\n" }}
{%- elif message.role == "assistant" -%}
{%- generation -%}{{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}{%- endgeneration -%}
{%- endif -%}
{%- endfor -%}
"""
TURNS = [
    "\t Answer in English. \n",
    "What does f do?\n",
    "  It returns 1.\n\n```python\nreturn 1\n```  ",
    "And g?",
    "2 ",
]
ROLES = ["system", "user", "assistant", "user", "assistant"]


def template_of(family: str) -> str:
    """Llama 3's control tokens are replaced by others, which the tests' tokenizer has."""
    source = SMOLLM3 if family == "smollm3" else (FAMILIES / f"{family}.jinja").read_text()
    named = {"<|start_header_id|>": "<|im_start|>", "<|end_header_id|>": "<|fim_pad|>", "<|eot_id|>": "<|im_end|>"}
    for llama, here in named.items():
        source = source.replace(llama, here)
    return source


@pytest.fixture
def folder(tokenizer, tmp_path) -> Path:
    return shutil.copytree(tokenizer, tmp_path / "tokenizer")


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "llama3", "smollm3"])
@pytest.mark.parametrize("first", [0, 1], ids=["with a system message", "without"])
def test_chats_are_formatted_as_transformers_formats_them(folder, family, first):
    (folder / "chat_template.jinja").write_text(template_of(family))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "bos_token": "<|repo_name|>"}))
    messages = [{"role": role, "content": text} for role, text in zip(ROLES, TURNS, strict=True)][first:]
    loaded, encoder = AutoTokenizer.from_pretrained(folder), Encoder(folder)
    encoded = encoder.encode([{"messages": messages}])
    loaded.chat_template = loaded.chat_template.replace('strftime_now("%d %B %Y")', '"26 July 2024"')
    theirs = loaded.apply_chat_template(messages, return_dict=False)
    assert encoded.ids.tolist() == theirs
    answers = [text.strip() if family == "llama3" else text for text in TURNS[2::2]]
    assert loaded.decode(np.array(theirs)[encoded.targets]) == "".join(f"{text}<|im_end|>" for text in answers)
    assert encoder.chats.turn_ends == {encoder.controls["<|im_end|>"]}


def refused(folder: Path, template: str | None = None) -> str:
    datasets = {"code": CodeDataset(kind="code", fim_rate=0), "instruct": InstructDataset(kind="instruct")}
    with pytest.raises(UserError) as error:
        check_base_tokenizer(folder, datasets, ["code", "instruct"], template)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_base_without_a_template_is_refused_by_name_and_may_be_given_one(folder, tmp_path):
    (folder / "chat_template.jinja").unlink()
    assert refused(folder) == (
        f"training.base.model: {folder}: no chat template, which a dataset of chats requires; give one in "
        "training.base.chat_template, or use a model that has one; dataset instruct is of chats"
    )
    check_base_tokenizer(folder, {"code": CodeDataset(kind="code")}, ["code"])
    check_base_tokenizer(folder, {"instruct": InstructDataset(kind="instruct")}, ["instruct"], "chatml")
    (tmp_path / "own.jinja").write_text("{{ raise_exception('no system messages') }}")
    message = refused(folder, str(tmp_path / "own.jinja"))
    assert message.startswith("training.base.chat_template: ") and "no system messages (roles: system, user" in message
    write_chat_template("chatml", folder)
    assert AutoTokenizer.from_pretrained(folder).chat_template.startswith("{%- if messages[0]['role'] == 'system'")


def test_fill_in_the_middle_on_a_base_without_its_tokens_names_the_setting_that_turns_it_off(folder):
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(content.replace("<|fim_suffix|>", "<|other|>"))
    with pytest.raises(
        UserError, match=r"^corpus.compose.code.fim_rate: .* no <\|fim_suffix\|>; set `fim_rate: 0`, or"
    ):
        check_base_tokenizer(folder, {"code": CodeDataset(kind="code")}, ["code"])
    check_base_tokenizer(folder, {"code": CodeDataset(kind="code", fim_rate=0)}, ["code"])


REWRITING = {
    "qwen3": template_of("qwen3"),
    "qwen3_5": template_of("qwen3_5") if (FAMILIES / "qwen3_5.jinja").is_file() else template_of("qwen3"),
    "upper": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | upper }}<|im_end|>\n{% endfor %}",
    "a branch": "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content.startswith('/') %}command{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}",
    "replace": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.replace('A', 'B') }}<|im_end|>\n"
    "{% endfor %}",
    "last words": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n"
    "{% endfor %}",
}
SAID = ["plain", "A b", "/run it", "<think>\nwhy\n</think>\n\nyes", "<think></think> no", "ß", " x\n", "<|im_end|>", ""]


@pytest.mark.parametrize("name", REWRITING)
def test_a_chat_is_as_transformers_formats_it_or_refused_in_one_line(folder, name):
    """Templates that take `<think>` out of earlier turns, or change a text, are followed for no chat they change."""
    (folder / "chat_template.jinja").write_text(REWRITING[name])
    loaded, encoder = AutoTokenizer.from_pretrained(folder), Encoder(folder)
    accepted = refused = 0
    for first in SAID:
        for second in SAID:
            turns = ["question", first, "more?", second]
            roles = ["user", "assistant", "user", "assistant"]
            messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
            refusal = encoder.refusal({"messages": messages})
            if refusal:
                assert "\n" not in refusal and "chat template" in refusal
                refused += 1
                continue
            theirs = loaded.apply_chat_template(messages, tokenize=False)
            ids = encoder.encode([{"messages": messages}]).ids.tolist()
            assert loaded.decode(ids) == theirs, messages
            accepted += 1
    assert refused and (accepted or name == "upper")


def test_roles_that_a_template_refuses_are_counted_with_its_words(folder, tmp_path, caplog):
    alternate = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    (folder / "chat_template.jinja").write_text(alternate)
    good = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    chats = [{"id": f"chats/{number}", "messages": good} for number in range(3)]
    chats[1] = {"id": "chats/bad", "messages": [good[0], *good]}
    kept = Encoder(folder).accepted(chats, "pack chats train")
    assert [chat["id"] for chat in kept] == ["chats/0", "chats/2"]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("pack chats train: 1 chats are left out, as chats/bad: ")
    assert "Conversation roles must alternate user/assistant" in line
