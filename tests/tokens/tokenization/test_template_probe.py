"""scripts/tokens/tokenization/chat_template.py: a template that fails, never ends or takes all memory is one line."""

import pytest

from scripts.common.errors import UserError
from scripts.tokens.tokenization.chat_template import CHATML, probe

RECURSION = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = a * b %}{% endfor %}{% endfor %}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        (RECURSION, "it calls itself without an end"),
        ("{{ 'a' * 9000000000 }}", "it takes more than 512 MiB"),
        (ENDLESS, "it does not end within 5 seconds"),
        ("{{ messages[7].content.x }}", "UndefinedError"),
        ("{% for %}", "TemplateSyntaxError"),
    ],
)
def test_a_template_that_cannot_be_used_is_one_line(source, line):
    with pytest.raises(UserError, match=rf"^models/x: chat template: .*{line}[^\n]*$"):
        probe(source, {}, "models/x")


@pytest.mark.slow
def test_templates_that_write_chats_or_refuse_roles_pass():
    probe(CHATML, {}, "models/x")
    refusing = "{{ raise_exception('no system') if messages[0].role == 'system' }}{{ eos_token }}"
    probe(refusing, {"eos_token": "<e>"}, "models/x")
