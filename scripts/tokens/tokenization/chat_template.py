"""A tokenizer folder's chat template: where it puts the messages of a chat, and which control token ends an answer.

    template = ChatTemplate(TokenizerFiles(folder))
    template.layout(("user", "assistant"))         # control ids, and between them literal texts and messages

Neither the vocabulary nor the engine is loaded, so a workflow can check the template before its first job
(scripts/tokens/tokenization/base_tokenizer.py). Templates that trim the contents, as Llama 3's, are followed. One that
writes the date gets 26 July 2024, Llama's own default, so that the same chats give the same rows on any day.
"""

import json
import re
import resource
import subprocess
import sys
from datetime import date
from functools import cached_property
from typing import NamedTuple, NoReturn

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from scripts.common.errors import UserError
from scripts.tokens.tokenization.tokenizer_files import TokenizerFiles

# limits of the process that renders a template first, and the chats that it renders
SECONDS = 5
MEMORY = 512 << 20  # bytes
CHATS = (("user", "assistant"), ("system", "user", "assistant"), ("user", "assistant", "user", "assistant"))
DATE = date(2024, 7, 26)
# A content's placeholder: private-use characters, which no template contains, between blanks that a template may trim.
PLACEHOLDER = "\t \ue000{}\ue001 \t"
PLACED = re.compile("(\t )?\ue000(\\d+)\ue001( \t)?")

# Qwen2.5's ChatML template, without tools.
CHATML = """\
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (loop.first and message['role'] == 'system') %}
        {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


class Content(NamedTuple):
    """The place of a message's content, and on which sides the template trims it."""

    number: int
    trim_left: bool
    trim_right: bool

    def of(self, contents: list[str]) -> str:
        text = contents[self.number]
        if self.trim_left:
            text = text.lstrip()
        return text.rstrip() if self.trim_right else text


class GenerationTag(Extension):
    """`{% generation %}`, with which some templates mark answers for transformers; here its body alone counts."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def environment_of(tokens: dict[str, str]) -> ImmutableSandboxedEnvironment:
    """What templates are compiled in, as by transformers' `apply_chat_template`; `tokens` are texts by name."""
    extensions = ["jinja2.ext.loopcontrols", GenerationTag]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.globals.update(tokens)
    environment.globals.update({"raise_exception": refuse, "strftime_now": DATE.strftime})
    return environment


def template_source(files: TokenizerFiles) -> str | None:
    """The text of a folder's chat template, from its own file or tokenizer_config.json; None where there is none."""
    path = files.folder / "chat_template.jinja"
    source = path.read_text() if path.is_file() else files.config.get("chat_template")
    if isinstance(source, list):  # several by name
        source = next((template["template"] for template in source if template.get("name") == "default"), None)
    if isinstance(source, str):
        return source
    return None


def probe(source: str, tokens: dict[str, str], place: str) -> None:
    """Render the template for a few chats in a child process.

    Args:
        tokens: name → text of the control tokens that the template may use.
        place: the folder or file that the template is in, for errors.

    Raises:
        UserError: it takes too long or too much memory, or it fails otherwise than by refusing the roles.
    """
    command = [sys.executable, "-m", "scripts.tokens.tokenization.chat_template"]
    given = json.dumps({"source": source, "tokens": tokens})
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=4 * SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"{place}: chat template: it does not end within {SECONDS} seconds") from None
    if done.returncode < 0:
        raise UserError(f"{place}: chat template: it does not end within {SECONDS} seconds")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise UserError(f"{place}: chat template: {last}")


class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        source: the template's text; the folder's own by default.

    Attributes:
        turn_ends: ids that end an answer in the layouts made so far.
    """

    def __init__(self, files: TokenizerFiles, source: str | None = None):
        self.folder, self.controls, self.names = files.folder, files.controls, files.names
        self.source = source or template_source(files)
        self.layouts: dict[tuple[str, ...], list[int | list[str | Content]]] = {}
        self.texts: dict[tuple[str, ...], str] = {}  # as rendered with placeholders
        self.turn_ends: set[int] = set()

    @cached_property
    def compiled(self) -> jinja2.Template:
        """The template, compiled as by transformers' `apply_chat_template`."""
        if self.source is None:
            raise UserError(
                f"{self.folder}: no chat template, which a dataset of chats requires; give one in "
                "training.base.chat_template, or use a model that has one"
            )
        if self.source != CHATML:
            probe(self.source, self.names, str(self.folder))
        try:
            return environment_of(self.names).from_string(self.source)
        except jinja2.TemplateError as error:
            raise UserError(f"{self.folder}: chat template: {error}") from error

    def layout(self, roles: tuple[str, ...]) -> list[int | list[str | Content]]:
        """The layout of a chat: control ids, and between them lists of literal texts and contents.

        It depends only on the roles: the template is rendered once per sequence of roles, with placeholders instead of
        contents, so contents never pass through the template. An assistant's content is the last of its list, with
        nothing but blanks between it and the control token after it.

        Raises:
            UserError: the template refuses these roles, or an assistant's content does not end in a control token.
        """
        if roles in self.layouts:
            return self.layouts[roles]
        messages = [{"role": role, "content": PLACEHOLDER.format(i)} for i, role in enumerate(roles)]
        try:
            text = self.compiled.render(messages=messages, add_generation_prompt=False)
        except (jinja2.TemplateError, TypeError, ArithmeticError, LookupError, ValueError, RecursionError) as error:
            raise UserError(f"{self.folder}: chat template: {error} (roles: {', '.join(roles)})") from error
        controls = "|".join(re.escape(token) for token in sorted(self.controls, key=len, reverse=True))
        pieces = [piece for piece in re.split(f"({controls})", text) if piece]
        layout, order = [], []
        for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
            literals_and_places = PLACED.split(piece)  # literal, left blank, number, right blank, literal, ...
            run, answers = literals_and_places[:1], []
            for left, number, right, literal in zip(*[iter(literals_and_places[1:])] * 4, strict=True):
                run += [Content(int(number), left is None, right is None), literal]
                order.append(int(number))
                if roles[int(number)] == "assistant":
                    answers.append(run[-2])
            if answers:
                if answers != [run[-2]] or run[-1].strip() or after not in self.controls:
                    raise UserError(
                        f"{self.folder}: chat template: an answer must end in a control token, as in ChatML"
                    )
                self.turn_ends.add(self.controls[after])
            layout.append(self.controls.get(piece, run))
        if order != list(range(len(roles))):
            raise UserError(
                f"{self.folder}: chat template: it must copy each message's content unchanged, as in ChatML "
                f"(roles: {', '.join(roles)})"
            )
        self.layouts[roles], self.texts[roles] = layout, text
        return layout

    def refusal(self, messages: list[dict]) -> str:
        """Why a chat cannot be trained on with this template, in one line; empty if it can.

        The template may refuse its roles, as Gemma's where they do not alternate, or rewrite what is said, as Qwen3's
        takes `<think>` out of earlier turns: rows would then not be what the model sees in use.
        """
        roles = tuple(message["role"] for message in messages)
        try:
            self.layout(roles)
            if self.source == CHATML:
                return ""
            rendered = self.compiled.render(messages=messages, add_generation_prompt=False)
        except UserError as error:
            return str(error)
        except (jinja2.TemplateError, TypeError, ArithmeticError, LookupError, ValueError, RecursionError) as error:
            return f"{self.folder}: chat template: {error}"
        contents = [message["content"] for message in messages]

        def content(place: re.Match) -> str:
            left, number, right = place.groups()
            return Content(int(number), left is None, right is None).of(contents)

        if rendered == PLACED.sub(content, self.texts[roles]):
            return ""
        return f"{self.folder}: chat template: it rewrites what is said in this chat, or writes it elsewhere"


def main() -> None:
    """Render the template of standard input, within limits; what is wrong is the last line of standard error."""
    given = json.loads(sys.stdin.read())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        template = environment_of(given["tokens"]).from_string(given["source"])
        for roles in CHATS:
            messages = [{"role": role, "content": "text"} for role in roles]
            try:
                template.render(messages=messages, add_generation_prompt=False)
            except jinja2.TemplateRuntimeError:
                raise
            except jinja2.TemplateError:  # it may refuse some roles
                continue
    except MemoryError:
        sys.exit(f"it takes more than {MEMORY >> 20} MiB")
    except RecursionError:
        sys.exit("it calls itself without an end")
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
