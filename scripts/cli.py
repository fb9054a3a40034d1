"""The command `stagecraft`: fourteen verbs, each a function whose docstring is its help.

    stagecraft plan --profile a40
    python -m scripts.cli plan --profile a40        # the same, where `make env` has not installed the command

A verb imports what it needs when it runs, for fast help and completion. Paths are read from where the user stands.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError

from scripts.cli_options import ROOT, Experiment, File, Folder, Profile, Several, from_root, suggestion
from scripts.common.cli import run
from scripts.common.errors import UserError

HELP = """Raw code repositories to an evaluated code model.

The run itself is Snakemake's: `snakemake --profile a40 results/eval.json`. These verbs are for before, during and after
it, from any folder of the checkout. `stagecraft VERB --help` shows an example of each."""

app = App("stagecraft", help=HELP, help_format="plaintext", version_flags=[])
app.register_install_completion_command(help="Install the completion of verbs, options, profiles and experiments.")


# --- the verbs, in the order of their help ----------------------------------------------------------------------


@app.command
def accept(
    *jobs: Annotated[str, Parameter(required=True)],
    reason: str,
    profile: Profile = "local",
    experiment: Experiment = None,
) -> None:
    """Keep results after a refactoring that changes none of them; the reason is shown beside them.

    Nothing is run or compared. It exits with 1 if a job is refused. For example:

        stagecraft accept train.sft --reason "renamed a helper"
        stagecraft accept filter perplexity.sft --reason "renamed a helper"

    Args:
        jobs: A rule, or a job as rule.name.
        reason: Why the change of the code changes no result.
    """
    from scripts.report.commands import why

    why.accept(profile, experiment, list(jobs), reason)


@app.command
def compare(a: Folder, b: Folder, /, *, out: Folder = Path("results/compare")) -> None:
    """Print what made two runs differ, and what run B gained and lost against run A, problem by problem.

    For example:

        stagecraft compare results /elsewhere/results

    Args:
        a: The results root of run A.
        b: The results root of run B.
        out: The folder for compare.json.
    """
    from scripts.report.commands import compare

    compare.compare(a, b, out)


@app.command
def judge(
    benchmark: File,
    generations: File,
    /,
    *,
    out: Folder = Path("results/judge"),
    base: bool = False,
    timeout: float = 10,
    memory: int = 1024,
    packages: Folder | None = None,
    ignore: Annotated[list[str] | None, Several] = None,
) -> None:
    """Judge programs that were generated before, problem by problem, and compare with their published outcomes.

    It reads the files of EvalPlus, bigcode-evaluation-harness, LiveCodeBench and this project. For example:

        stagecraft judge MbppPlus.jsonl samples.jsonl

    Args:
        benchmark: The file of the benchmark.
        generations: The file of the programs.
        out: The folder for verdicts.jsonl.zst.
        base: Compare with EvalPlus' base outcomes, those of the original benchmark.
        timeout: Seconds of one program.
        memory: Megabytes of one program.
        packages: The Python environment whose packages programs and tests may import.
        ignore: Fields of the benchmark that hold no tests.
    """
    from scripts.evaluation.benchmarks.judge_generations import judge_file
    from scripts.experiment.settings.suites import Benchmark
    from scripts.judge.judge import Judge
    from scripts.judge.sandbox import probe
    from scripts.judge.sandbox.bubblewrap import Limits
    from scripts.judge.sandbox.packages import Packages

    if not 0 < timeout < float("inf"):
        raise UserError(f"--timeout {timeout:g}: must be a number of seconds above 0")
    if not 64 <= memory < 1 << 20:
        raise UserError(f"--memory {memory}: must be from 64 to {(1 << 20) - 1} megabytes")
    environment = str(packages) if packages is not None else None
    problems = Benchmark(path=str(benchmark), ignore=ignore or [])
    limits = Limits(timeout, memory << 20)
    judge = Judge(probe.sandbox(), limits, Packages.from_environment(environment))
    judge_file(problems, generations, out, base, judge)


@app.command
def plan(*, profile: Profile = "local", experiment: Experiment = None, rows: int | None = None) -> None:
    """Print whether each stage fits, how long it takes and what it costs; needs no data.

    It exits with 1 if a stage does not fit. For example:

        stagecraft plan --profile a40
        stagecraft plan --profile a800 --experiment cpt-muon --rows 100000

    Args:
        rows: Plan for so many packed training rows, instead of counting or estimating them.
    """
    from scripts.training.planning.overview import print_plans

    print_plans(profile, experiment, rows)


@app.command
def publish(*, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Push raw archives and finished results to the DVC remote, and write the pointers to be committed.

    For example:

        stagecraft publish --profile a40 --experiment qwen2.5-7b-code
    """
    from scripts.release.publish import publish_experiment

    publish_experiment(profile, experiment)


@app.command
def rehearse(*, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Make all data, plan, then run 3 steps of each stage and 2 items of each suite with a tiny model.

    It runs where the profile says, below results/rehearsal/. For example:

        stagecraft rehearse --profile a40 --experiment qwen2.5-7b-code
    """
    from scripts.report.commands import rehearse

    rehearse.rehearse(profile, experiment)


@app.command
def release(stage: str, /, *, profile: Profile = "local", experiment: Experiment = None, push: str = "") -> None:
    """Write a stage's model for others: weights, card, notices, checksums; GGUF files if the experiment asks for them.

    What is missing is run first. Nothing is released that behaves otherwise than the trained model. For example:

        stagecraft release sft --profile a40

    Args:
        stage: The stage.
        push: Upload the files that are listed to this repository of the hub, as ORGANISATION/NAME; it is made private.
    """
    from scripts.report.commands.release import release as of_stage

    of_stage(stage, profile, experiment, push)


@app.command
def serve(
    stage: str | None = None,
    /,
    *,
    port: int = 8012,
    host: str = "127.0.0.1",
    key_file: File | None = None,
    no_retrieval: Annotated[bool, Parameter(negative=())] = False,
    watch: Folder | None = None,
    gguf: File | None = None,
    profile: Profile = "local",
    experiment: Experiment = None,
) -> None:
    """Serve a stage's model to editors, with OpenAI's interface, as it was measured: with retrieved code. For example:

        stagecraft serve own --experiment mine

    Args:
        stage: By default the first stage.
        port: The port; 0 takes a free one.
        host: The address. Another one than this machine's own needs a key.
        key_file: A file with the key that clients must send.
        no_retrieval: Retrieve nothing.
        watch: A clone whose files as they are now are retrieved from, too.
        gguf: A released GGUF file of the stage, which llama.cpp runs.
    """
    from scripts.serving import command

    command.serve(profile, experiment, stage, host, port, key_file, not no_retrieval, watch, gguf)


@app.command
def sources(folder: Folder, /, *, out: File = Path("config/my-sources.tsv")) -> None:
    """Write a table of sources from folders priority/language/repository, each pinned by its commit or content.

    For example:

        stagecraft sources ~/repositories --out config/mine.tsv

    Args:
        folder: It holds high/ and medium/, these Python/, java/, C++/ ..., and these the repositories.
        out: The table to write; it must not exist yet.
    """
    from scripts.sources.tables.from_folder import make_table

    make_table(folder, out)


@app.command
def start(
    given: Folder,
    /,
    *,
    base: str | None = None,
    profile: Profile | None = None,
    time: str | None = None,
    name: str | None = None,
    test: str | None = None,
    update: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Write an experiment for a folder of clones or a file of chats, and print its plan and next command. For example:

        stagecraft start ~/repositories
        stagecraft start ~/repositories --base Qwen/Qwen2.5-Coder-7B --profile a40 --time 8h

    Args:
        given: A clone, bare or not, a folder of clones, or a file of chats.
        base: The base model: a name on the hub, with @REVISION if wanted, a folder, or a .gguf file.
        profile: The profile of the run. Without it this host's GPUs are used, or its processor.
        time: How long it may take, as 30m, 8h or 2d: ten minutes if not given, on GPUs an hour.
        name: The experiment's name; by default the folder's.
        test: What is held out: a file or folder in a clone, a pattern as `tests/*`, or a file of chats.
        update: Move the experiment that is there to the newest commits, and add new clones.
    """
    from scripts.report.commands.start import start as start_experiment

    paths = [from_root(path) if path and Path(path).exists() else path for path in (base, test)]
    start_experiment(given, profile, paths[0], time, name, paths[1], update)


@app.command
def status(*, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Print the state of all jobs: of each stage its step, loss, speed, time left and last alert.

    It only reads what the jobs write, during a run or after it. For example:

        stagecraft status --profile a40
    """
    from scripts.report.commands.status import show_status

    show_status(profile, experiment)


@app.command(name="try")
def try_models(
    stage: str | None = None,
    /,
    *,
    at: str | None = None,
    chat: str | None = None,
    profile: Profile = "local",
    experiment: Experiment = None,
) -> None:
    """Print what the base and a stage write at a place of a file, or in a chat, without and with retrieved code.

    For example:

        stagecraft try own --at scripts/cli.py:60

    Args:
        stage: By default the first stage for a place, the last one for a chat.
        at: The place, FILE:LINE or FILE:LINE:COLUMN.
        chat: What a user says.
    """
    from scripts.report.commands import try_models

    place = None if at is None else from_root(at)
    try_models.try_models(profile, experiment, stage, place, chat)


@app.command
def verify(release: Folder | None = None, /) -> None:
    """Read every byte of all results, raw archives and checkpoints, and name each file that is not what was made.

    A start of the workflow hashes only files whose size or times changed. With a folder the release in it is checked,
    by its own files alone. For example:

        stagecraft verify
        stagecraft verify ~/downloads/own-code-sft

    Args:
        release: A released model.
    """
    if release is not None:
        from scripts.release.card import print_check

        return print_check(release)
    from scripts.experiment.reruns.provenance import FOLDERS
    from scripts.release.verify import verify

    found = verify(FOLDERS, print)
    for line in found.wrong:
        print(line)
    if found.wrong:
        raise UserError(f"{len(found.wrong)} things are wrong; a run makes again what is not as it was made")
    print(f"all files of {found.jobs} jobs and of {found.checkpoints} checkpoints are what was made")


@app.command
def why(*, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Print why jobs would run. Nothing is run.

    For example:

        stagecraft why --profile a40
    """
    from scripts.report.commands import why

    why.print_causes(profile, experiment)


# --- one command line -------------------------------------------------------------------------------------------


def refuse(line: str) -> NoReturn:
    """End with one line about the command line."""
    print(f"error: {line}", file=sys.stderr)
    sys.exit(2)


def call(words: list[str]) -> None:
    """Run one command line.

    Raises:
        UserError: something that it names is not there, or what the verb raises.
        SystemExit: the command line is wrong (code 2), or by the verb.
    """
    try:
        verb, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except UnknownCommandError as error:
        word, verbs = error.unused_tokens[0], [name for name in app if not name.startswith("-")]
        if word.startswith("-"):
            refuse(f"{word}: options stand behind the verb, as in `stagecraft plan --profile a40`")
        refuse(f"{word}: no such verb; {suggestion(word, verbs)}")
    except CycloptsError as error:
        refuse(" ".join(str(error).split()))
    os.chdir(ROOT)
    verb(*bound.args, **bound.kwargs)


def main() -> None:
    run(lambda: call(sys.argv[1:]))


if __name__ == "__main__":
    main()
