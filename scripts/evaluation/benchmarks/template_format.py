"""Benchmark formats defined by a YAML file: each part of a problem is a template over the fields of a record.

    ours = TemplateFormat(Path("formats/ours.yaml"))
    problem = ours.read({"task_id": "a/1", "prompt": "def f(x):\\n", "test": "assert f(1) == 2"})

The keys are those of scripts/experiment/settings/benchmark_format.py. The fields that the templates use are the fields
that the format knows.
"""

import json
from pathlib import Path

from jinja2 import StrictUndefined, Template, TemplateError, Undefined, meta
from jinja2.sandbox import SandboxedEnvironment

from scripts.common.errors import UserError
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.benchmark_format import BenchmarkFormat
from scripts.judge.problem import HUMANEVAL_STOPS, Problem, entry_of, language_of


def text_only(value: object) -> str:
    """A value in a template, which must be text; a list or null would be a mistake in the template.

    Raises:
        TypeError: it is not text.
    """
    if isinstance(value, Undefined):
        return str(value)  # raises
    if not isinstance(value, str):
        raise TypeError(f"must be text, not {type(value).__name__}")
    return value


def text_or_number(value: object) -> str:
    return str(value) if isinstance(value, int | float) else text_only(value)


TEMPLATES = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, finalize=text_only)
# an id may be a number
IDS = TEMPLATES.overlay(finalize=text_or_number)
PARTS = ("id", "language", "prompt", "head", "tests", "entry", "canonical", "imports")


def cases(text: str) -> str:
    """The cases of a problem whose program reads standard input, as a JSON list of [input, output].

    Raises:
        ValueError: the text holds no such cases.
    """
    cases = json.loads(text)
    if not isinstance(cases, list) or not cases:
        raise ValueError("`tests` is no JSON list of cases")
    pairs = [[case.get("input"), case.get("output")] for case in cases if isinstance(case, dict)]
    if len(pairs) < len(cases) or not all(isinstance(text, str) for pair in pairs for text in pair):
        raise ValueError("a case in `tests` has no `input` and `output` that are texts")
    return json.dumps(pairs)


class TemplateFormat:
    """A format defined by a YAML file.

    Attributes:
        known: the fields that it uses, or lists as irrelevant.

    Raises:
        UserError: the file does not define a format.
    """

    def __init__(self, path: Path):
        self.name, self.format = str(path), BenchmarkFormat.parse(read_yaml(path), str(path))
        self.templates: dict[str, Template] = {}
        self.known = {*self.format.ignore, *([self.format.stops] if isinstance(self.format.stops, str) else [])}
        for part in PARTS:
            text = getattr(self.format, part)
            if text is None:
                continue
            try:
                self.templates[part] = (IDS if part == "id" else TEMPLATES).from_string(text)
                self.known |= meta.find_undeclared_variables(TEMPLATES.parse(text))
            except TemplateError as error:
                raise UserError(f"{path}: {part}: not a template: {error}") from error
        if self.format.judge == "stdio" and self.format.entry:
            raise UserError(f"{path}: entry: not with `judge: stdio`, whose tests call no function")

    def render(self, name: str, record: dict) -> str | None:
        """A part of a problem; None where the format does not give it.

        Raises:
            ValueError: the record lacks a field, or the template does not fit it.
        """
        if name not in self.templates:
            return None
        try:
            return self.templates[name].render(record)
        except (TemplateError, TypeError, ArithmeticError, LookupError) as error:
            raise ValueError(f"{name}: {error}") from error

    def read(self, record: dict) -> Problem:
        """The problem of a record.

        Raises:
            ValueError: the record does not fit the format.
        """
        parts = {name: self.render(name, record) for name in PARTS}
        language, prompt, stdio = language_of(parts["language"]), parts["prompt"], self.format.judge == "stdio"
        if stdio and language != "python":
            raise ValueError(f"`judge: stdio` is for python, not {language}")
        head = prompt if parts["head"] is None else parts["head"]
        if (entry := parts["entry"]) is None:
            entry = "" if stdio else entry_of(head, language)
        stops = self.format.stops
        if isinstance(stops, str):
            stops = record.get(stops)
            if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
                raise ValueError(f"stops: the record's {self.format.stops} is no list of texts")
        if stops is None:
            stops = HUMANEVAL_STOPS if language == "python" and not stdio else ()
        for name in ("id", "prompt", "tests"):
            if not parts[name].strip():
                raise ValueError(f"{name}: empty")
        tests = cases(parts["tests"]) if stdio else parts["tests"]
        return Problem(
            parts["id"],
            language,
            prompt,
            head,
            tests,
            entry,
            tuple(stops),
            parts["canonical"] or None,
            parts["imports"],
            judge=self.format.judge,
        )
