"""Edits of an experiment, as functions of its content."""


def set_key(*keys_and_value):
    """An edit that sets a nested key."""
    *keys, last, value = keys_and_value

    def edit(config):
        for key in keys:
            config = config[key]
        config[last] = value

    return edit


def human_ratings(gate=(), **keys):
    """An edit that has people rate the answers of `qa`, with a gate on it."""

    def edit(config):
        config["evaluation"] |= {"qa": {}, "human_ratings": {"of": "qa", **keys}}
        planted = {"name": "x", "dataset": "instruct", "model": "sft", "metric": "correct", "above": 0.8}
        config["evaluation"]["gate"]["gates"] = [planted | dict(gate)]

    return edit
