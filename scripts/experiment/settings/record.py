"""The base of all settings records: types, one-line errors, and the JSON form in which rules hand them to scripts.

    class Split(Record):
        test: Number = Field(0.02, gt=0, lt=1, description="Share of documents for evaluation.")

    split = Split.parse({"test": 0.05}, "experiment.yaml", "corpus.split")   # a UserError names file, key and remedy
    Split.from_json(to_json(split)) == split

The fields of a record are the only definition of its settings: the types and bounds checked here, the defaults, and
the descriptions from which config/README.md and the schemas are made.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from scripts.common.errors import UserError

SHOWN = 30  # names in an error
EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


def number_from_text(value: Any) -> Any:
    """The number that YAML 1.1 reads as text for want of a dot or a sign (`1e-3`, `5e6`); any other value unchanged."""
    if isinstance(value, str) and EXPONENT.fullmatch(value):
        return float(value)
    return value


def refuse_repetition(values: list) -> list:
    repeated = next((value for number, value in enumerate(values) if value in values[:number]), None)
    if repeated is not None:
        raise PydanticCustomError("repeated", "{value} occurs twice", {"value": repeated})
    return values


# (key, known keys) → what would be right, or None. scripts/experiment/load.py adds one: it is no part of
# the code of jobs, so another hint reruns none of them.
HINTS: list[Callable[[str, list[str]], str | None]] = []


def unknown_key_hint(key: str, known: list[str]) -> str:
    """What would be right in the place of an unknown key."""
    for hint in HINTS:
        text = hint(key, known)
        if text:
            return text
    close = difflib.get_close_matches(key, known, 1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known keys: {', '.join(known)}"


def check_name(key: str, value: str, names: Iterable[str]) -> None:
    """Refuse a `value` that is not one of `names`; of many names the error shows those that resemble it. Raises
    UserError: it is not; the line starts with `key`."""
    known = list(names)
    if value in known:
        return
    shown = ", ".join(known)
    if len(known) > SHOWN:
        near = difflib.get_close_matches(value, known, 5) or known[:5]
        shown = f"{len(known):,} others, such as {', '.join(near)}"
    raise UserError(f"{key}: no {value!r} here; known: {shown}")


def shortest(value: int | float) -> int | float:
    """`0.0` and `0` are one value: written as one, so that the other way of writing it reruns nothing."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


Number = Annotated[int | float, BeforeValidator(number_from_text), AfterValidator(shortest)]


def whole_or_share(value: float) -> float:
    if value > 1 and value % 1:
        raise PydanticCustomError("steps", "must be a whole number of steps, or below 1 a share of all steps")
    return value


# As transformers' `eval_steps`: a number of steps, or below 1 a share of all steps.
Steps = Annotated[Number, Field(gt=0), AfterValidator(whole_or_share)]
Unique = AfterValidator(refuse_repetition)
Names = Annotated[list[str], Unique, Field(min_length=1)]
Text = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # what numpy takes


class Record(BaseModel):
    """Settings that were checked. Unknown keys are errors, numbers are not made out of text, nothing changes later."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, validate_by_name=True, validate_by_alias=True
    )

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown_keys(cls, value: Any) -> Any:
        """Name the closest known key, which pydantic's own error does not."""
        known = sorted(field.alias or name for name, field in cls.model_fields.items())
        for key in value if isinstance(value, dict) else ():
            if key not in known and key not in cls.model_fields:
                hint = unknown_key_hint(str(key), known)
                raise PydanticCustomError("unknown_key", "{key}: unknown key; {hint}", {"key": str(key), "hint": hint})
        return value

    @classmethod
    def parse(cls, value: Any, name: str, *keys: str) -> Self:
        """The record of `value`, as it comes out of a YAML file.

        Args:
            name: the file, for errors.
            keys: where in that file `value` lies.

        Raises:
            UserError: `value` breaks a rule; the line starts with `name` and the key.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise UserError(f"{name}: {explain(error, value, list(keys))}") from None

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The record in a script's `--settings`; for argparse's `type`. Raises UserError: the text is not JSON, or not
        such a record."""
        return parse_json(cls, text)


def parse_json(kind: Any, text: str) -> Any:
    """The record in a script's `--settings`, where `kind` is a Record or a union of Records. Raises UserError: the text
    is not JSON, or not such a record."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"--settings: not JSON: {error}") from error
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise UserError(f"--settings: {explain(error, value, [])}") from None


def to_dict(record: Record) -> dict:
    """The settings as plain values, defaults filled in; a setting without a value is left out."""
    return record.model_dump(mode="json", by_alias=True, exclude_none=True)


def as_json(value: dict) -> str:
    """Plain values as a rule's params hold them: exactly what the script is given, keys in one order."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def to_json(record: Record) -> str:
    """The settings as a rule's params hold them."""
    return as_json(to_dict(record))


# what a value must be, by pydantic's type of error
MUST_BE = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a number of at most 18 digits",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "too_short": "a list or mapping of at least {min_length} entry",
    "too_long": "a list or mapping of at most {max_length} entries",
    "string_too_short": "text of at least {min_length} character",
}


def must_be(error: dict) -> str:
    """What would be right in the place of one error."""
    if error["type"] == "literal_error":
        expected = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        if "," in expected:
            return f"one of {expected}"
        return f"`{expected}`"
    return MUST_BE[error["type"]].format(**error.get("ctx", {}))


def explain(error: ValidationError, value: Any, keys: list[str]) -> str:
    """One line for the first key that is wrong: the key, what would be right, what is there."""
    errors = [(key_of(detail, value, keys), detail) for detail in error.errors(include_url=False)]
    key, group = next(groupby(errors, key=lambda pair: pair[0]))
    details = [detail for _, detail in group]  # a union has an error for each of its forms
    first = details[0]
    if first["type"] == "missing":
        return f"{key}: required"
    if first["type"] == "unknown_key":
        return f"{'' if key == TOP else f'{key}.'}{first['msg']}"
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        tag = first["ctx"].get("tag")
        known = first["ctx"].get("expected_tags", "").replace("'", "")
        kind = "kind" if key == TOP else f"{key}.kind"
        if known:
            return f"{kind}: must be one of {known}, not {tag!r}"
        return f"{kind}: required"
    own = next((detail for detail in details if detail["type"] not in (*MUST_BE, "literal_error")), None)
    if own:  # a check of our own, whose text is the whole line
        return f"{key}: {own['msg'].removeprefix('Value error, ')}"
    kinds = {detail["type"] for detail in details}
    if kinds & {"float_type", "finite_number"}:  # naming whole numbers too would say it twice
        details = [detail for detail in details if detail["type"] != "int_type"]
    right = " or ".join(dict.fromkeys(must_be(detail) for detail in details))
    return f"{key}: must be {right}, not {first['input']!r:.60}"


TOP = "top level"


def key_of(error: dict, value: Any, keys: list[str]) -> str:
    """The dotted key of an error, without the parts that name a form of a union instead of a key of the file."""
    parts = list(keys)
    for place in error["loc"]:
        try:
            value = value[place]
        except (KeyError, IndexError, TypeError):
            if error["type"] != "missing" or place != error["loc"][-1]:
                continue
        parts.append(str(place))
    return ".".join(parts) or TOP


# a user name is no secret for ssh, but is where tokens are given for https
USER = re.compile(r"^(?!ssh:)[a-z+]+://[^/?#]*@", re.IGNORECASE)
PASSWORD = re.compile(r"^(ssh://)?[^/@\s]*:[^/@\s]*@", re.IGNORECASE)
QUERY = re.compile(r"^[a-z+]+://[^?#]*[?#]", re.IGNORECASE)


def refuse_credentials(location: str) -> str:
    """`location` itself."""
    for pattern, part in ((USER, "a user name or token"), (PASSWORD, "a password"), (QUERY, "a query or fragment")):
        if pattern.search(location):
            raise PydanticCustomError(
                "credentials",
                "the URL has {part}, which logs and reports would show; give the plain URL, and the credentials to git:"
                " by a credential helper, ~/.netrc or GIT_CONFIG_* variables for https, by a key for ssh",
                {"part": part},
            )
    return location


def without_credentials(text: str) -> str:
    """`text` with what may be credentials in URLs replaced by `***`."""
    text = re.sub(r"(?<=://)[^/@\s]+@|[^/@\s]*:[^/@\s]+@", "***@", text)
    return re.sub(r"(://[^?#\s]*)[?#]\S*", r"\1***", text)


Location = Annotated[str, AfterValidator(refuse_credentials)]
