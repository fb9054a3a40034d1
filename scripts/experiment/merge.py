"""Merge settings over others, as `extends` does.

merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": None}})      # {"a": {"b": 3}}
"""


def merged(below: dict, above: dict) -> dict:
    """`above` laid over `below`: mappings are merged key by key, `null` removes a key, anything else is replaced."""
    result = dict(below)
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
        else:
            both = isinstance(value, dict) and isinstance(below.get(key), dict)
            result[key] = merged(below[key], value) if both else value
    return result
