"""The forms in which people keep chats, as the `messages` that a chat is here.

    messages_in({"instruction": "Add.", "input": "1 2", "output": "3"}, "a.jsonl: 1")

- `messages`: a list of `role` and `content`, as it is; behind a field `system`, if there is one;
- `conversations` (ShareGPT): a list of `from` (human, gpt, system ...) and `value`; with `role` and `content` too;
- `instruction`, `output`, and if there are any `input`, `system` and `history` (Alpaca): the input follows the
  instruction after an empty line; `history` is a list of earlier [question, answer] pairs.
"""

from scripts.common.cli import UserError

FIELDS = ("messages", "conversations", "instruction", "input", "output", "system", "history")
ROLE_OF = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant"}
EXAMPLE = "{'messages': [{'role': ..., 'content': ...}, ...]}"


def messages_in(record: object, where: str) -> list:
    """The messages of a record; their roles and contents are not checked yet.

    Raises:
        UserError: the record has none of these forms, or offers tools.
    """
    found = {key: record[key] for key in FIELDS if record.get(key) is not None} if isinstance(record, dict) else {}
    if isinstance(record, dict) and (tools := next((key for key in ("tools", "functions") if record.get(key)), None)):
        raise UserError(f"{where}: `{tools}`: tool calls are not trained on; leave such chats out, or remove `{tools}`")
    if isinstance(found.get("messages"), list):
        return [*system_of(found), *found["messages"]]
    if isinstance(found.get("conversations"), list):
        return [*system_of(found), *map(from_sharegpt, found["conversations"])]
    if "instruction" in found and "output" in found:
        return from_alpaca(found, where)
    raise UserError(
        f"{where}: no `messages`; a record is {EXAMPLE}, or has `conversations`, or `instruction` and `output`"
    )


def system_of(found: dict) -> list[dict]:
    """The message of a field `system`, if it says anything."""
    return [{"role": "system", "content": found["system"]}] if found.get("system") else []


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


def from_alpaca(found: dict, where: str) -> list[dict]:
    """The messages of an instruction with its output.

    Raises:
        UserError: a field holds something else than text, or `history` no pairs.
    """
    for key in ("instruction", "input", "output", "system"):
        if not isinstance(found.get(key, ""), str):
            raise UserError(f"{where}: `{key}` must be text, not {found[key]!r:.40}")
    result, history = system_of(found), found.get("history", [])
    if not isinstance(history, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in history):
        raise UserError(f"{where}: `history` must be a list of [question, answer], not {history!r:.40}")
    for question, answer in history:
        result += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    given = found.get("input", "")
    question = "\n\n".join(part for part in (found["instruction"], given) if part.strip())
    return [*result, {"role": "user", "content": question}, {"role": "assistant", "content": found["output"]}]
