"""Credentials in the URL of a pinned benchmark's repository are refused and not shown."""

import pytest

from scripts.common.errors import UserError
from scripts.experiment.settings.suites import Benchmark


def test_credentials_in_the_repository_of_a_benchmark_are_refused_and_not_shown():
    value = {"path": "data/a.jsonl", "git": "https://me:hidden@example.org/r", "commit": "0" * 40}
    with pytest.raises(UserError, match=r"^e.yaml: git: the URL has a user name or token.*credential helper") as caught:
        Benchmark.parse(value, "e.yaml")
    assert "hidden" not in str(caught.value)
