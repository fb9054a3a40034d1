"""Convert common chat formats (ShareGPT, Alpaca) to a list of `messages`.

    messages_in({"instruction": "Add.", "input": "1 2", "output": "3"}, "a.jsonl: 1")

- `messages`: a list of `role` and `content`, or of `from` and `value`; behind a field `system`, if there is one;
- `conversations` (ShareGPT): a list of `from` (human, gpt, system ...) and `value`; with `role` and `content` too;
- `prompt` and `completion`: two texts, or two lists of messages (TRL);
- `instruction`, `output`, and if there are any `input` and `system` (Alpaca): the input follows the instruction after
  an empty line. In this form and the one above, `history` is a list of earlier [question, answer] pairs.

A list of messages may be written as JSON text, as in the cells of a table.
"""

import json
from collections.abc import Mapping
from contextlib import suppress

from scripts.common.errors import UserError
from scripts.experiment.settings.corpus import CHAT_FIELDS

# fields of a record, or of one of its messages, that say that it is no chat to train on as text
TOOLS = ("tools", "functions", "tool_calls", "tool_call", "function_call")
MEDIA = ("images", "image", "videos", "video", "audios", "audio")
LABELS = ("label", "kto_tag")  # whether the answer is desired
# by which other tools leave an answer, or a whole chat, out of the loss: where it is false, and where it is true
TRAINED = ("weight", "train", "training", "trainable", "train_on_turn", "loss", "loss_scale", "loss_mask")
MASKED = ("mask", "masked")
# by which others weigh a whole chat, or each of its messages: here a chat counts once, and each of its answers
WEIGHTS = ("weight", "weights", "sample_weight", "loss_weight", "loss_scale", "loss_mask")
BESIDE = (*TOOLS, *MEDIA, *LABELS, *TRAINED, *MASKED)
NO_TOOLS = ("", "[]", "{}", "null")  # tools as JSON text
WITHOUT_TOOLS = "tool calls are not trained on; leave such chats out, or write them as text"
# roles as ShareGPT, OpenAI, Gemini and Open Assistant write them, in lower case
ROLE_OF = {"human": "user", "prompter": "user"}
ROLE_OF |= dict.fromkeys(("ai", "bard", "bing", "bot", "chatgpt", "gpt", "model"), "assistant")
ROLE_OF |= {"developer": "system", "function_call": "function", "observation": "tool"}
EXAMPLE = "{'messages': [{'role': ..., 'content': ...}, ...]}"


class BadRecord(UserError):
    """A record that is no chat to train on; `reason` is one word for the count."""

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


def renamed(content: object, columns: Mapping[str, str]) -> dict:
    """The known fields of a record or message, by their known names; none where it is no record."""
    if not isinstance(content, dict):
        return {}
    return {key: content[columns.get(key, key)] for key in CHAT_FIELDS if columns.get(key, key) in content}


def messages_in(record: object, place: str, columns: Mapping[str, str] | None = None) -> list:
    """The messages of a record; their roles and contents are not checked yet.

    Args:
        columns: known name of a field → its name in the record.

    Raises:
        BadRecord: the record has none of these forms, or offers tools.
    """
    columns = columns or {}
    fields = {key: value for key, value in renamed(record, columns).items() if value is not None}
    if isinstance(record, dict):
        check_beside(record, place)
    messages = messages_of(fields, place)
    if isinstance(record, dict) and record.get("chosen") and "chosen" not in columns.values():
        last = messages[-1] if messages else None
        if isinstance(last, dict) and role_of(last) == "user":
            raise BadRecord(
                "ranking", f"{place}: `chosen` answers the last question, and is not read; write it into the messages"
            )
    if not columns.keys() & {"role", "content"}:
        return messages
    return [{**message, **renamed(message, columns)} if isinstance(message, dict) else message for message in messages]


def check_tools_and_media(fields: dict, place: str) -> None:
    """Refuse a record or a message that offers or calls tools, or that is more than text."""
    for key in TOOLS:
        tools = fields.get(key)
        if tools and not (isinstance(tools, str) and tools.strip() in NO_TOOLS):
            raise BadRecord("tools", f"{place}: `{key}`: {WITHOUT_TOOLS}")
    for key in MEDIA:
        if fields.get(key):
            raise BadRecord("media", f"{place}: `{key}`: only text is trained on; leave such chats out")


def check_beside(record: dict, place: str) -> None:
    """Refuse a record with fields beside its chat by which the chat is none to train on as text."""
    check_tools_and_media(record, place)
    for key in LABELS:  # a number may be a class, which says nothing of the answer
        if str(record.get(key)).lower() == "false":
            raise BadRecord(
                "undesired_answer", f"{place}: `{key}: {record[key]}`: an undesired answer is not trained on"
            )
    for key in WEIGHTS:
        if weighs(record.get(key)):
            raise BadRecord(
                "weighted", f"{place}: `{key}: {str(record[key])[:40]}`: a chat counts once, and each answer whole"
            )
    key = untrained_key(record)
    if key:
        raise BadRecord("untrained_answer", f"{place}: `{key}: {record[key]}`: the chat is marked as not to train on")


def untrained_key(fields: dict) -> str | None:
    """The key by which a message or a record is marked as not to be trained on; None where it is not."""
    for key in TRAINED:
        if key in fields and is_false(fields[key]):
            return key
    for key in MASKED:
        value = fields.get(key)
        if not value or is_false(value):
            continue
        role = role_of({"role": value})  # NeMo names the role that is not trained on
        if role not in ("user", "system"):
            return key
    return None


def weighs(value: object) -> bool:
    """Whether a weight is more than yes or no: of a chat another number than 0 and 1, of its messages one that is not
    1."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return False
    if isinstance(value, list):
        return any(part != 1 for part in value)
    return isinstance(value, int | float) and value not in (0, 1)


def is_false(value: object) -> bool:
    """Whether a value says no: 0 or false, as text too."""
    if isinstance(value, str):
        return value.strip().lower() in ("0", "0.0", "false", "no")
    return isinstance(value, int | float) and value == 0


def messages_of(fields: dict, place: str) -> list:
    """The messages of the form that the fields have."""
    for key in ("messages", "conversations"):
        messages = as_list(fields.get(key))
        if isinstance(messages, list):
            return [*system_of(fields), *map(from_sharegpt, messages)]
    if "prompt" in fields and "completion" in fields:
        return from_prompt(fields, place)
    if "instruction" in fields and "output" in fields:
        return from_alpaca(fields, place)
    raise BadRecord(
        "no_messages",
        f"{place}: no `messages`; a record is {EXAMPLE}, or has `conversations`, `prompt` and `completion`, or"
        " `instruction` and `output`; `columns` says where its fields have other names, as `completion: chosen`",
    )


def as_list(value: object) -> object:
    """The list in JSON text, or in the columns that the datasets library makes of a `Sequence` of records; any other
    value as it is."""
    if isinstance(value, dict) and value and all(isinstance(column, list) for column in value.values()):
        return [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=False)]
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError):
            return json.loads(value)
    return value


def role_of(message: dict) -> object:
    """The role of a message, by the name that this project has for it; as it is where it is no text."""
    role = message.get("role")
    if isinstance(role, str):
        return ROLE_OF.get(role.lower(), role.lower())
    return role


def system_of(fields: dict) -> list[dict]:
    """The message of a field `system`, if it says anything."""
    if fields.get("system"):
        return [{"role": "system", "content": fields["system"]}]
    return []


def from_sharegpt(turn: object) -> object:
    """A turn with `from` and `value` as a message with its other keys; any other as it is, to be checked later."""
    if not isinstance(turn, dict) or turn.get("from") is None or turn.get("role") is not None:
        return turn
    return {**turn, "role": turn["from"], "content": turn.get("value")}


def from_prompt(fields: dict, place: str) -> list:
    """The messages of a prompt with its completion; where the completion repeats the prompt (as the chosen answers of
    UltraFeedback do), it is the whole chat."""
    question, answer = as_turns(fields["prompt"], "user"), as_turns(fields["completion"], "assistant")
    asked = contents_of(question, "user")
    if any(content in asked for content in contents_of(answer, "user")):
        known = contents_of(answer, "system")
        question = [turn for turn in question if contents_of([turn], "system") and turn["content"] not in known]
    return [*system_of(fields), *history_of(fields, place), *question, *answer]


def contents_of(turns: list, role: str) -> list:
    """The contents of a role's messages."""
    found = []
    for turn in turns:
        if isinstance(turn, dict) and role_of(turn) == role:
            found.append(turn.get("content"))
    return found


def as_turns(side: object, role: str) -> list:
    """A side of a chat as messages: a list of them, or the text of one."""
    if isinstance(side, list):
        return [from_sharegpt(turn) for turn in side]
    return [{"role": role, "content": side}]


def history_of(fields: dict, place: str) -> list[dict]:
    """The messages of the earlier [question, answer] pairs."""
    history = as_list(fields.get("history") or [])  # in a table the cell is there, and empty
    if not isinstance(history, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in history):
        raise BadRecord("history", f"{place}: `history` must be a list of [question, answer], not {history!r:.40}")
    turns = []
    for question, answer in history:
        turns += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return turns


def from_alpaca(fields: dict, place: str) -> list[dict]:
    """The messages of an instruction with its output."""
    for key in ("instruction", "input", "output", "system"):
        if not isinstance(fields.get(key, ""), str):
            raise BadRecord("no_text", f"{place}: `{key}` must be text, not {fields[key]!r:.40}")
    question = "\n\n".join(part for part in (fields["instruction"], fields.get("input", "")) if part.strip())
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": fields["output"]}]
    return [*system_of(fields), *history_of(fields, place), *turns]
