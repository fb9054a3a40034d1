"""scripts/release/gguf_file.py: what Ollama would send is what the chat template renders."""

import re

import jinja2
import pytest

from scripts.release.gguf_file import modelfile
from scripts.tokens.tokenization.chat_template import CHATML

TURNS = (
    "{% for message in messages %}FIRST{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'"
    " + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
DEFAULT = (
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a model.\\nBe brief.<|im_end|>\\n' }}{% endif %}"
)
LLAMA3 = (
    "{{ '<|begin_of_text|>' }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] +"
    " '<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>' }}{% endfor %}"
)
CHATS = [
    [("user", "one")],
    [("system", "S"), ("user", "one")],
    [("user", "one\ntwo"), ("assistant", "three"), ("user", "four")],
    [("system", "S"), ("user", "one"), ("assistant", "two"), ("user", "three")],
]


def refuse(message):
    raise jinja2.TemplateError(message)


def renderer(template):
    """What transformers' `apply_chat_template` makes of a template, without importing transformers."""
    compiled = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    return lambda messages: compiled.render(messages=messages, add_generation_prompt=True, raise_exception=refuse)


def sent_by_ollama(text, messages):
    """The prompt of a Modelfile: the system prompt goes first where a chat has none, as its server does it."""
    system = re.search(r'^SYSTEM """(.*?)"""', text, re.S | re.M)
    if system and messages[0]["role"] != "system":
        messages = [{"role": "system", "content": system[1]}, *messages]
    turn, end = re.search(r'^TEMPLATE """{{ range .Messages }}(.*?){{ end }}(.*?)"""', text, re.S | re.M).groups()
    turns = [turn.replace("{{ .Role }}", one["role"]).replace("{{ .Content }}", one["content"]) for one in messages]
    return "".join(turns) + end


@pytest.mark.parametrize(
    "template",
    [TURNS.replace("FIRST", ""), TURNS.replace("FIRST", DEFAULT), CHATML],
    ids=["chatml", "with a default", "ours"],
)
def test_a_modelfile_sends_what_the_template_renders_with_its_own_system_prompt(template):
    render = renderer(template)
    text = modelfile("m.gguf", ["<|im_end|>"], render)
    assert text.startswith('FROM ./m.gguf\nPARAMETER stop "<|im_end|>"\n')
    for chat in CHATS:
        messages = [{"role": role, "content": content} for role, content in chat]
        assert sent_by_ollama(text, messages) == render(messages)


@pytest.mark.parametrize(
    "template", [LLAMA3, TURNS.replace("FIRST", "{{ raise_exception('no') }}"), "{{ messages[0].content }}"]
)
def test_another_template_is_left_to_ollama(template):
    assert "TEMPLATE" not in modelfile("m.gguf", [], renderer(template))
    assert "TEMPLATE" not in modelfile("m.gguf", [], None)
