"""Judge existing generations, problem by problem, and compare with their published outcomes.

    stagecraft judge MbppPlus.jsonl generated_eval_results.json --out results/judge

Reads what EvalPlus writes (lines with `task_id` and `completion` or `solution`; also its eval_results.json, whose
outcomes are compared), what bigcode-evaluation-harness writes (a list of programs per problem, in the benchmark's
order), LiveCodeBench's outputs (`question_id` with `code_list` and `graded_list`) and this project's items.jsonl.zst. A
completion continues the benchmark's prompt, unless it begins with that prompt itself; all others are whole programs. Of
a chat's answer in Markdown, the code block that holds the function is judged.
Writes verdicts.jsonl.zst, one line per program, and prints the score and every disagreement. Programs for a part of the
problems, and programs that could not be judged, make no score of the benchmark: then the counts are printed.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.evaluation.benchmarks.files import unpacked
from scripts.evaluation.benchmarks.formats import problems_of
from scripts.evaluation.benchmarks.prompts import block, closed, completed, program
from scripts.evaluation.metrics.pass_at_k import unbiased
from scripts.experiment.settings.code import Benchmark
from scripts.judge.judge import Judge, judge_all
from scripts.judge.outcomes import FAULTS
from scripts.judge.problem import Problem

# how a user gives the libraries without which tests cannot be built
LIBRARIES = {"java": "--jars javatuples-1.2.jar", "go": "--go-vendor vendor"}
WHOLE = ("solution", "generation", "code")  # keys of whole programs


class Generation(NamedTuple):
    """A program for a problem, and whether it was published as passed (None if nothing was)."""

    problem: str
    text: str
    is_program: bool
    published: bool | None = None


def from_eval_results(results: dict, base: bool) -> Iterator[Generation]:
    """The programs of EvalPlus' eval_results.json; passed are those that pass base and plus tests, or base tests."""
    for name, samples in results.items():
        for sample in samples:
            added = sample.get("plus_status")
            statuses = [sample["base_status"], *([added] if added and not base else [])]
            yield Generation(name, sample["solution"], True, all(status == "pass" for status in statuses))


def from_livecodebench(record: dict) -> Iterator[Generation]:
    """The programs of one problem of LiveCodeBench's outputs; `graded_list` says which were published as passed."""
    graded = record.get("graded_list") or [None] * len(record["code_list"])
    for text, passed in zip(record["code_list"], graded, strict=True):
        yield Generation(record["question_id"], text, True, passed)


def from_record(record: dict) -> Iterator[Generation]:
    """The programs of one line: EvalPlus' or ours.

    Raises:
        KeyError, TypeError: it is neither.
    """
    if "written" in record:
        published = [verdict["outcome"] == "passed" for verdict in record["verdicts"]]
        for text, passed in zip(record["written"], published, strict=True):
            yield Generation(record["id"], text, True, passed)
        return
    key = next((key for key in WHOLE if key in record), "completion")
    yield Generation(record["task_id"], record[key], key != "completion", record.get("passed"))


def read_generations(path: Path, problems: list[Problem], base: bool = False) -> list[Generation]:
    """All generations of a file.

    Args:
        base: whether the benchmark has only EvalPlus' base tests.

    Raises:
        UserError: it is in none of the forms, or about other problems.
    """
    try:
        if path.suffix == ".zst":
            generations = [generation for record in read_jsonl(path) for generation in from_record(record)]
        else:
            text = unpacked(path).removeprefix("\ufeff")  # as Windows programs begin a file
            content = json.loads(text) if path.suffix == ".json" or text.lstrip().startswith("[") else None
            if isinstance(content, list) and content and isinstance(content[0], dict) and "code_list" in content[0]:
                generations = [generation for record in content for generation in from_livecodebench(record)]
            elif isinstance(content, list):
                if len(content) != len(problems):
                    raise UserError(f"{path}: programs for {len(content)} problems; the benchmark has {len(problems)}")
                pairs = [
                    (problem, texts if isinstance(texts, list) else [texts])  # a text is the only program
                    for problem, texts in zip(problems, content, strict=True)
                ]
                generations = [Generation(problem.id, text, True) for problem, texts in pairs for text in texts]
            elif content is not None:
                generations = list(from_eval_results(content["eval"], base))
            else:
                lines = [json.loads(line) for line in text.splitlines() if line.strip()]
                generations = [generation for line in lines for generation in from_record(line)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}: neither EvalPlus' samples or eval_results.json, nor bigcode's generations.json, nor outputs of"
            f" LiveCodeBench, nor items of this project ({type(error).__name__}: {error})"
        ) from error
    if not_text := next((generation for generation in generations if not isinstance(generation.text, str)), None):
        raise UserError(f"{path}: {not_text.problem}: the program must be text, not {not_text.text!r:.40}")
    known = {problem.id.casefold(): problem.id for problem in problems}  # EvalPlus writes Mbpp/2 for MBPP/2
    generations = [
        generation._replace(problem=known.get(str(generation.problem).casefold(), generation.problem))
        for generation in generations
    ]
    if unknown := [generation.problem for generation in generations if str(generation.problem).casefold() not in known]:
        raise UserError(
            f"{path}: {len(unknown)} programs for problems that are not in the benchmark, such as {unknown[0]}"
        )
    if not generations:
        raise UserError(f"{path}: holds no program")
    return generations


def is_chat_answer(problem: Problem, text: str) -> bool:
    """Whether a text is a chat's answer in Markdown, with a code block that holds the function."""
    if not re.search(r"^[ \t]*```", text, re.M):
        return False
    if problem.language == "python":
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
        else:
            return False  # the fence is in a string of the program
    code = block(problem, text)
    return code != text and problem.entry in code


def source(problem: Problem, generation: Generation) -> str:
    """The program of a generation: EvalPlus and HumanEval judge a Python completion as it is, without cutting it."""
    if is_chat_answer(problem, generation.text):
        return closed(problem, program(problem, generation.text, "chat"))
    if generation.is_program or (problem.prompt and generation.text.startswith(problem.prompt)):
        return closed(problem, generation.text)
    if problem.language == "python":
        return problem.head + generation.text
    return completed(problem, generation.text)


def judge_generations(problems: list[Problem], generations: list[Generation], judge: Judge) -> list[dict]:
    """A record per program: `id`, `sample`, `outcome`, `detail`, `published` (null if nothing was)."""
    by_id, samples, rows = {problem.id: problem for problem in problems}, Counter(), []
    programs = [
        (by_id[generation.problem], source(by_id[generation.problem], generation)) for generation in generations
    ]
    for generation, verdict in zip(generations, judge_all(judge, programs), strict=True):
        about = {"id": generation.problem, "sample": samples[generation.problem], "outcome": verdict.outcome}
        rows.append(about | {"detail": verdict.detail, "published": generation.published})
        samples[generation.problem] += 1
    return rows


def summary_lines(rows: list[dict], problems: int) -> list[str]:
    """The score, the outcomes, and the disagreements with what was published, as lines."""
    passed, samples = Counter(), Counter()
    for row in rows:
        samples[row["id"]] += 1
        passed[row["id"]] += row["outcome"] == "passed"
    counts = sorted(set(samples.values()))
    each = f"{counts[0]} to {counts[-1]} for each" if len(counts) > 1 else f"{counts[0]} for each"
    mean = sum(unbiased(count, passed[name], 1) for name, count in samples.items()) / len(samples)
    faults, unjudged = (sum(row["outcome"] in kinds for row in rows) for kinds in (FAULTS, ("unjudged",)))
    if len(samples) < problems:
        lines = [
            f"no score of the benchmark: programs for {len(samples)} of its {problems} problems ({len(rows)}, {each});"
            f" pass@1 of this part {mean:.4f}, {mean * len(samples) / problems:.4f} if the others count as not passed"
        ]
    else:
        lines = [f"pass@1 {mean:.4f} over all {problems} problems ({len(rows)} programs, {each})"]
    if unjudged:
        share = sum(passed.values()) / max(1, len(rows) - unjudged)
        lines[0] += (
            f"; {unjudged} programs are unjudged, as their tests need one process, and count as not passed:"
            f" {share:.4f} of the others passed"
        )
    if faults:
        lines = [
            f"not measured: {faults} of {len(rows)} programs could not be judged, as the tests or the sandbox failed"
        ]
    outcomes = Counter(row["outcome"] for row in rows)
    lines.append(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    published = [row for row in rows if row["published"] is not None]
    if published:
        judged = [row for row in published if row["outcome"] not in (*FAULTS, "unjudged")]
        differing = [row for row in judged if row["published"] != (row["outcome"] == "passed")]
        published_passes = sum(row["published"] for row in published)
        lines.append(
            f"published: {published_passes} of {len(published)} passed; of {len(judged)} programs that could be judged"
            f" {len(differing)} are judged otherwise here{':' if differing else ''}"
        )
        for row in differing:
            published_as = "passed" if row["published"] else "failed"
            detail = " ".join(row["detail"].split())[-100:]
            lines.append(
                f"  {row['id']} ({row['sample']}): published {published_as}, here {row['outcome']} {detail}".rstrip()
            )
    return lines


def refuse_missing_libraries(wanted: set[str], problems: list[Problem], judge: Judge) -> None:
    """Refuse problems whose tests cannot be built here, before minutes are spent on the others.

    Args:
        wanted: ids of the problems that are judged.

    Raises:
        UserError: a library is missing.
    """
    for language, option in LIBRARIES.items():
        lacking = {
            problem.id: missing
            for problem in problems
            if problem.language == language and problem.id in wanted and (missing := judge.missing(problem))
        }
        if lacking:
            raise UserError(
                f"{len(lacking)} problems, such as {next(iter(lacking))}, need"
                f" {', '.join(sorted(set().union(*lacking.values())))}; say where it is: {option}"
            )


def judge_file(benchmark: Benchmark, path: Path, out: Path, base: bool, judge: Judge) -> None:
    """Judge the programs of a file: prints the score, writes the verdicts.

    Args:
        base: whether to compare with EvalPlus' base outcomes.

    Raises:
        UserError: a file cannot be read, or a library that the tests need is missing.
    """
    problems = problems_of(benchmark)
    generations = read_generations(path, problems, base)
    refuse_missing_libraries({generation.problem for generation in generations}, problems, judge)
    rows = judge_generations(problems, generations, judge)
    verdicts = out / "verdicts.jsonl.zst"
    write_jsonl(verdicts, rows)
    by_id = {problem.id: problem for problem in problems}
    extracted = sum(is_chat_answer(by_id[item.problem], item.text) for item in generations)
    note = [f"of {extracted} of {len(generations)} answers a code block was judged"] if extracted else []
    print("\n".join([*note, *summary_lines(rows, len(problems)), f"verdicts: {verdicts}"]))
