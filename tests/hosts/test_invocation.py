"""scripts/hosts/invocation.py: targets, options and whether jobs run, as Snakemake itself reads a command line."""

import pytest

from scripts.common.errors import UserError
from scripts.hosts.invocation import read_invocation


def test_targets_and_options_are_told_apart():
    call = read_invocation(["results/eval.json", "--profile", "a40", "--configfile", "config/config.yaml", "--nolock"])
    assert call.targets == ["results/eval.json"]
    assert call.options == ["--profile", "a40", "--configfile", "config/config.yaml", "--nolock"]
    assert call.runs_jobs and call.remakes and not call.locks and not call.dry_run and not call.inner


@pytest.mark.parametrize(
    ("words", "runs", "remakes"),
    [
        (["-np"], False, True),
        (["all", "-j1", "--dry-run"], False, True),
        (["--unlock"], False, False),
        (["--lint"], False, False),
        (["--summary"], False, False),
        (["--cores", "1", "-F"], True, False),
        (["--cores", "1"], True, True),
    ],
)
def test_the_options_tell_whether_jobs_run_and_whether_missing_files_are_made(words, runs, remakes):
    call = read_invocation(words)
    assert (call.runs_jobs, call.remakes) == (runs, remakes)


def test_touch_is_refused_as_it_would_say_that_todays_settings_made_old_results():
    with pytest.raises(UserError, match=r"--touch: .* run without it, .* or see `stagecraft accept`"):
        read_invocation(["--cores", "1", "--touch"])
