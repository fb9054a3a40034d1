"""How Snakemake was called: its targets, and whether it runs jobs; as its own parser reads it, profiles included."""

import contextlib
import difflib
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.common.errors import UserError

INNER = "STAGECRAFT_INNER_RUN"  # set in the environment of a Snakemake that this one starts and waits for
TOUCHES = "STAGECRAFT_TOUCHES"  # set by `stagecraft publish`, which hashed what it lets Snakemake touch
# options with which Snakemake prints or tidies something and runs no job
NO_JOBS = (
    *("dryrun", "unlock", "lint", "report", "summary", "detailed_summary", "archive", "containerize"),
    *("list_rules", "list_target_rules", "list_input_changes", "list_params_changes", "list_untracked"),
    *("dag", "rulegraph", "filegraph", "d3dag", "print_compilation", "cleanup_metadata", "cleanup_shadow"),
    *("delete_all_output", "delete_temp_output", "list_conda_envs", "conda_cleanup_envs", "generate_unit_tests"),
)


@dataclass(frozen=True)
class Invocation:
    """A command line of Snakemake; `options` are its words without the targets."""

    targets: list[str]
    options: list[str]
    runs_jobs: bool
    dry_run: bool
    touch_or_all: bool  # nothing is made, or everything
    locks: bool  # not with --nolock
    inner: bool  # started by another one, which holds the folder

    @property
    def remakes(self) -> bool:
        """Whether missing files may be made again before, or in a dry run be named."""
        return (self.runs_jobs or self.dry_run) and not self.touch_or_all


def read_invocation(words: list[str] | None = None) -> Invocation:
    """The command line of this process, or of `words`. Raises UserError: it has `--touch`, which would say of old
    results that today's settings made them."""
    from snakemake.cli import parse_args

    if words is None:
        words = sys.argv[1:]
    with contextlib.redirect_stderr(io.StringIO()):  # it says again which profiles it uses
        _, args = parse_args(words)
    if args.touch and TOUCHES not in os.environ:
        raise UserError(
            "--touch: it would say of results that today's settings and code made them; run without it, which makes"
            " only what changed, or see `stagecraft accept`"
        )
    targets = [str(target) for target in args.targets]
    return Invocation(
        targets=targets,
        options=[word for word in words if word not in targets],
        runs_jobs=not any(getattr(args, name, None) for name in NO_JOBS),
        dry_run=bool(args.dryrun),
        touch_or_all=bool(args.touch or args.forceall),
        locks=not args.nolock,
        inner=INNER in os.environ,
    )


def check_targets(workflow, targets: list[str]) -> None:
    """Check that a rule of this name, or one that makes this file, exists for each target. Raises UserError: none does;
    the line names the closest rule or target."""
    names = [rule.name for rule in workflow.rules]
    for target in targets:
        if target in names or Path(target).exists() or any(rule.is_producer(target) for rule in workflow.rules):
            continue
        files = []
        for rule in workflow.rules:
            for file in rule.output:
                if "{" not in str(file):
                    files.append(str(file))
        close = difflib.get_close_matches(target, [*names, *files], 1)
        end = f"did you mean {close[0]}?" if close else f"rules: {', '.join(names)}"
        raise UserError(f"{target}: no rule has this name or makes this file with this experiment; {end}")
