"""Convert common chat formats (ShareGPT, Alpaca) to a list of `messages`.

    messages_in({"instruction": "Add.", "input": "1 2", "output": "3"}, "a.jsonl: 1")

- `messages`: a list of `role` and `content`, as it is; behind a field `system`, if there is one;
- `conversations` (ShareGPT): a list of `from` (human, gpt, system ...) and `value`; with `role` and `content` too;
- `instruction`, `output`, and if there are any `input`, `system` and `history` (Alpaca): the input follows the
  instruction after an empty line; `history` is a list of earlier [question, answer] pairs.
"""

from scripts.common.errors import UserError

FIELDS = ("messages", "conversations", "instruction", "input", "output", "system", "history")
ROLE_OF = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant"}
EXAMPLE = "{'messages': [{'role': ..., 'content': ...}, ...]}"


def messages_in(record: object, place: str) -> list:
    """The messages of a record; their roles and contents are not checked yet.

    Raises:
        UserError: the record has none of these forms, or offers tools.
    """
    fields = {key: record[key] for key in FIELDS if record.get(key) is not None} if isinstance(record, dict) else {}
    if isinstance(record, dict) and (tools := next((key for key in ("tools", "functions") if record.get(key)), None)):
        raise UserError(f"{place}: `{tools}`: tool calls are not trained on; leave such chats out, or remove `{tools}`")
    if isinstance(fields.get("messages"), list):
        return [*system_of(fields), *fields["messages"]]
    if isinstance(fields.get("conversations"), list):
        return [*system_of(fields), *map(from_sharegpt, fields["conversations"])]
    if "instruction" in fields and "output" in fields:
        return from_alpaca(fields, place)
    raise UserError(
        f"{place}: no `messages`; a record is {EXAMPLE}, or has `conversations`, or `instruction` and `output`"
    )


def system_of(fields: dict) -> list[dict]:
    """The message of a field `system`, if it says anything."""
    return [{"role": "system", "content": fields["system"]}] if fields.get("system") else []


def from_sharegpt(turn: object) -> object:
    """A turn with `from` and `value` as a message; any other as it is, which is checked later."""
    if not isinstance(turn, dict) or "from" not in turn:
        return turn
    role = turn["from"]
    role = ROLE_OF.get(role, role) if isinstance(role, str) else role
    return {
        "role": {"function_call": "function", "observation": "tool"}.get(str(role), role),
        "content": turn.get("value"),
    }


def from_alpaca(fields: dict, place: str) -> list[dict]:
    """The messages of an instruction with its output.

    Raises:
        UserError: a field holds something else than text, or `history` no pairs.
    """
    for key in ("instruction", "input", "output", "system"):
        if not isinstance(fields.get(key, ""), str):
            raise UserError(f"{place}: `{key}` must be text, not {fields[key]!r:.40}")
    result, history = system_of(fields), fields.get("history", [])
    if not isinstance(history, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in history):
        raise UserError(f"{place}: `history` must be a list of [question, answer], not {history!r:.40}")
    for question, answer in history:
        result += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    context = fields.get("input", "")
    question = "\n\n".join(part for part in (fields["instruction"], context) if part.strip())
    return [*result, {"role": "user", "content": question}, {"role": "assistant", "content": fields["output"]}]
