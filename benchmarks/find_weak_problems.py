"""Problems whose tests a wrong program passes: NaN in place of numbers, or nothing but an empty value.

    python -m benchmarks.find_weak_problems humaneval_cpp.jsonl.gz [more files]

Of each problem in a compiled language two programs are judged: one that computes the published result and puts NaN in
place of every floating-point number in it, and one that returns zero, false, an empty text, list or map. Prints a line
for each that passes.
"""

import json
import re
import sys
from pathlib import Path

from scripts.evaluation.benchmarks.formats import read
from scripts.judge.judge import Judge, judge_all
from scripts.judge.problem import Problem
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.compiled_programs import divided, parameters
from scripts.judge.sandbox.program import Limits

FLOATS = r"\b(?:float|double|f32|f64|float64|Double)\b"

# Functions that put NaN in place of the numbers of a result.
BLANK = {
    "cpp": """
template <class T> T blank(T value) { return value; }
template <> float blank(float) { return NAN; }
template <> double blank(double) { return NAN; }
template <class T> vector<T> blank(vector<T> value) { for (T& item : value) item = blank(item); return value; }
""",
    "rust": """
trait Blank { fn blank(self) -> Self; }
impl Blank for f32 { fn blank(self) -> Self { f32::NAN } }
impl Blank for f64 { fn blank(self) -> Self { f64::NAN } }
impl<T: Blank> Blank for Vec<T> { fn blank(self) -> Self { self.into_iter().map(T::blank).collect() } }
impl<A: Blank, B: Blank> Blank for (A, B) { fn blank(self) -> Self { (self.0.blank(), self.1.blank()) } }
fn blank<T: Blank>(value: T) -> T { value.blank() }
""",
    "go": """
func blankNumber(value float64) float64 { return math.NaN() }
func blankList(value []float64) []float64 { for i := range value { value[i] = math.NaN() }; return value }
func blankPair(value [2]float64) [2]float64 { return [2]float64{math.NaN(), math.NaN()} }
""",
    "java": """
    static Double blank(double value) { return Double.NaN; }
    static List<Double> blank(List<Double> value) {
        return new ArrayList<>(Collections.nCopies(value.size(), Double.NaN));
    }
""",
}
GO_BLANKS = {"float64": "blankNumber", "[]float64": "blankList", "[2]float64": "blankPair"}


def result_type(signature: str, problem: Problem) -> str:
    """The type that a function returns, as its signature writes it."""
    if problem.language in ("cpp", "java"):
        return re.sub(
            r"\b(?:public|static)\s+", "", signature[: re.search(rf"\b{problem.entry}\s*\(", signature).start()]
        )
    return signature[signature.rindex(")" if problem.language == "go" else "->") :].lstrip(")->").strip()


def with_nan(problem: Problem) -> str | None:
    """The published solution with NaN for each number of its result; None if there is none."""
    before, signature = divided(problem)
    kind, language = result_type(signature, problem), problem.language
    blank = GO_BLANKS.get(kind) if language == "go" else "blank"
    if not re.search(FLOATS, kind) or not blank:
        return None
    body = problem.head[problem.head.index(signature) + len(signature) :] + problem.canonical
    renamed = re.sub(rf"\b{problem.entry}(?=\s*\()", "published", signature, count=1)
    names = parameters(signature, language)
    if language == "go":  # the name stands before the type
        names = re.findall(r"[(,]\s*(\w+)", signature[: signature.rindex(")")].split(problem.entry, 1)[1])
    call = f"{blank}(published({', '.join(names)}))"
    wrapper = f"{signature} {{ {call} }}\n" if language == "rust" else f"{signature} {{ return {call}; }}\n"
    if language == "java":
        return f"{before}{BLANK[language]}{wrapper}{renamed}{body}"
    return f"{before}{BLANK[language]}{renamed}{body}\n{wrapper}"


def empty(problem: Problem) -> str:
    """A program that returns an empty value."""
    _, signature = divided(problem)
    kind = result_type(signature, problem)
    match problem.language:
        case "cpp":
            body = "return {};\n}"
        case "rust":
            body = "Default::default()\n}"
        case "go":
            made = f"{kind}{{}}" if kind.startswith(("[", "map")) else f"*new({kind})"
            body = f"return {made}\n}}"
        case _:
            values = {"int": "0", "long": "0", "double": "0", "boolean": "false", "String": '""', "Object": "null"}
            classes = {"List": "new ArrayList<>()", "Map": "new HashMap<>()", "Optional": "Optional.empty()"}
            body = f"return {values.get(kind.strip()) or classes[kind.split('<')[0].strip()]};\n    }}\n}}"
    return f"{problem.head}\n{body}\n"


def main() -> None:
    judge = Judge(probe.sandbox(), Limits(20, 1 << 30))
    for path in map(Path, sys.argv[1:]):
        problems = [problem for problem in read(path) if problem.canonical and problem.language in BLANK]
        tried = [(problem, "NaN", with_nan(problem)) for problem in problems]
        tried += [(problem, "an empty value", empty(problem)) for problem in problems]
        tried = [result for result in tried if result[2] is not None]
        verdicts = judge_all(judge, [(problem, code) for problem, _, code in tried], path.name)
        for (problem, wrong, _), verdict in zip(tried, verdicts, strict=True):
            if verdict.outcome == "passed":
                print(json.dumps({"problem": problem.id, "passes with": wrong}), flush=True)
        counts = {}
        for (_, wrong, _), verdict in zip(tried, verdicts, strict=True):
            counts.setdefault(wrong, {}).setdefault(verdict.outcome, 0)
            counts[wrong][verdict.outcome] += 1
        print(json.dumps({"file": path.name, "outcomes": counts}), flush=True)


if __name__ == "__main__":
    main()
