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

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.evaluation.benchmarks.formats import problems_of, unpacked
from scripts.evaluation.benchmarks.prompts import block, closed, completed, parses, program
from scripts.evaluation.metrics.scoring import pass_at_k
from scripts.experiment.settings.suites import Benchmark
from scripts.judge.judge import Judge, judge_all
from scripts.judge.problem import FAULTS, Problem

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
    """The programs of one line: EvalPlus' or ours."""
    if "written" in record:
        published = [verdict["outcome"] == "passed" for verdict in record["verdicts"]]
        for text, passed in zip(record["written"], published, strict=True):
            yield Generation(record["id"], text, True, passed)
        return
    key = next((key for key in WHOLE if key in record), "completion")
    yield Generation(record["task_id"], record[key], key != "completion", record.get("passed"))


def read_generations(path: Path, problems: list[Problem], base: bool = False) -> list[Generation]:
    """All generations of a file. `base`: whether the benchmark has only EvalPlus' base tests."""
    try:
        generations = list(generations_in(path, problems, base))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}: neither EvalPlus' samples or eval_results.json, nor bigcode's generations.json, nor outputs of"
            f" LiveCodeBench, nor items of this project ({type(error).__name__}: {error})"
        ) from error
    known, unknown = {problem.id.casefold(): problem.id for problem in problems}, []
    for number, generation in enumerate(generations):
        if not isinstance(generation.text, str):
            raise UserError(f"{path}: {generation.problem}: the program must be text, not {generation.text!r:.40}")
        name = str(generation.problem).casefold()  # EvalPlus writes Mbpp/2 for MBPP/2, and others 2 alone
        if name not in known and name.isdigit():
            name = f"mbpp/{name}"
        if name in known:
            generations[number] = generation._replace(problem=known[name])
        else:
            unknown.append(generation.problem)
    if unknown:
        raise UserError(
            f"{path}: {len(unknown)} programs for problems that are not in the benchmark, such as {unknown[0]}"
        )
    if not generations:
        raise UserError(f"{path}: holds no program")
    return generations


def generations_in(path: Path, problems: list[Problem], base: bool) -> Iterator[Generation]:
    """As `read_generations`, of whatever the file holds."""
    if path.suffix == ".zst":
        for record in read_jsonl(path):
            yield from from_record(record)
        return
    text = unpacked(path).removeprefix("\ufeff")  # as Windows programs begin a file
    if path.suffix != ".json" and not text.lstrip().startswith("["):
        for line in filter(str.strip, text.split("\n")):  # a text in JSON may hold U+2028, which ends no line
            yield from from_record(json.loads(line))
        return
    content = json.loads(text)
    if not isinstance(content, list):
        yield from from_eval_results(content["eval"], base)
    elif content and isinstance(content[0], dict) and "code_list" in content[0]:
        for record in content:
            yield from from_livecodebench(record)
    elif len(content) != len(problems):
        raise UserError(f"{path}: programs for {len(content)} problems; the benchmark has {len(problems)}")
    else:
        for problem, texts in zip(problems, content, strict=True):
            for program in texts if isinstance(texts, list) else [texts]:  # a text is the only program
                yield Generation(problem.id, program, True)


def is_chat_answer(problem: Problem, text: str) -> bool:
    """Whether a text is a chat's answer, with a code block or behind its thinking, that holds the function."""
    code = block(problem, text)
    if code == text or problem.entry not in code:
        return False
    # else the fence is in a string of the program
    return problem.language != "python" or not parses(text)


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
    programs = []
    for generation in generations:
        problem = by_id[generation.problem]
        programs.append((problem, source(problem, generation)))
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
    fewest, most = min(samples.values()), max(samples.values())
    each = f"{fewest} to {most} for each" if most > fewest else f"{fewest} for each"
    mean = sum(pass_at_k(count, passed[name], 1) for name, count in samples.items()) / len(samples)
    outcomes = Counter(row["outcome"] for row in rows)
    unjudged, faults = outcomes["unjudged"], sum(outcomes[kind] for kind in FAULTS)
    first = f"pass@1 {mean:.4f} over all {problems} problems ({len(rows)} programs, {each})"
    if len(samples) < problems:
        first = (
            f"no score of the benchmark: programs for {len(samples)} of its {problems} problems ({len(rows)}, {each});"
            f" pass@1 of this part {mean:.4f}, {mean * len(samples) / problems:.4f} if the others count as not passed"
        )
    if unjudged:
        first += (
            f"; {unjudged} programs are unjudged, as their tests need one process, and count as not passed:"
            f" {outcomes['passed'] / max(1, len(rows) - unjudged):.4f} of the others passed"
        )
    if faults:
        first = (
            f"not measured: {faults} of {len(rows)} programs could not be judged, as the tests or the sandbox failed"
        )
    lines = [first, ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())]
    published = [row for row in rows if row["published"] is not None]
    if not published:
        return lines
    judged = [row for row in published if row["outcome"] not in (*FAULTS, "unjudged")]
    differing = [row for row in judged if row["published"] != (row["outcome"] == "passed")]
    lines.append(
        f"published: {sum(row['published'] for row in published)} of {len(published)} passed; of {len(judged)} programs"
        f" that could be judged {len(differing)} are judged otherwise here{':' if differing else ''}"
    )
    for row in differing:
        published_as = "passed" if row["published"] else "failed"
        detail = " ".join(row["detail"].split())[-100:]
        place = f"{row['id']} ({row['sample']})"
        lines.append(f"  {place}: published {published_as}, here {row['outcome']} {detail}".rstrip())
    return lines


def judge_file(benchmark: Benchmark, path: Path, out: Path, base: bool, judge: Judge) -> None:
    """Judge the programs of a file: prints the score, writes the verdicts.

    Args:
        base: whether to compare with EvalPlus' base outcomes.

    Raises:
        UserError: a file cannot be read.
    """
    problems = problems_of(benchmark)
    generations = read_generations(path, problems, base)
    rows = judge_generations(problems, generations, judge)
    verdicts = out / "verdicts.jsonl.zst"
    write_jsonl(verdicts, rows)
    by_id = {problem.id: problem for problem in problems}
    extracted = sum(is_chat_answer(by_id[item.problem], item.text) for item in generations)
    note = []
    if extracted:
        note = [f"of {extracted} of {len(generations)} answers a code block was judged"]
    print("\n".join([*note, *summary_lines(rows, len(problems)), f"verdicts: {verdicts}"]))
