"""The source files of programs in compiled languages: the candidate's code alone, then the tests that call it.

    sources = candidate(problem, code)     # compiled first, in a sandbox without the tests
    sources = tests(problem, key)          # compiled and linked with the compiled candidate

The tests see only one function of the candidate, under the signature that the problem declares; its macros, classes,
overloads and other symbols are not visible to them. The program's main() is a launcher (`launchers/`): it reads half of
a secret from standard input before the tests, and prints the whole after them. The other half is `key`.
"""

import re
from pathlib import Path

from scripts.evaluation.benchmarks.formats import BEGINS, Problem

LAUNCHERS = Path(__file__).parent / "launchers"

CPP_INCLUDES = ("stdlib.h", "algorithm", "math.h", "stdio.h", "vector", "string", "climits", "cstring", "iostream")
# The packages that the reference harness imports if the code uses them.
GO_PACKAGES = ("math", "strings", "fmt", "strconv", "time", "bytes", "regexp", "sort", "math/rand", "crypto/md5")

# Definitions in Rust code.
DEFINED = r"\b(?:fn|enum|struct|type) (\w+)"


def divided(problem: Problem) -> tuple[str, str]:
    """(the part of the head before the problem's function, the signature of that function)."""
    *_, begin = re.finditer(BEGINS[problem.language], problem.head, re.M)
    # the brace at the end of a line: Go's `interface{}` may come before it
    end = re.compile(r"\{[ \t]*$", re.M).search(problem.head, begin.end())
    return problem.head[: begin.start()], problem.head[begin.start() : end.start()].strip()


def parameters(signature: str, language: str) -> list[str]:
    """The names of a function's parameters."""
    if language == "rust":
        inside = re.sub(r"::", "", signature[signature.index("(") :].split("->")[0])
        return re.findall(r"(\w+)\s*:", inside)
    inside, nested = signature[signature.index("(") + 1 : signature.rindex(")")], 1
    while nested:  # type arguments, the innermost first
        inside, nested = re.subn(r"<[^<>]*>", "", inside)
    return [part.split()[-1].rstrip("[]") for part in inside.split(",") if part.strip()]


def go_file(code: str, package: str, known: str) -> str:
    """Go source that imports the packages it uses, out of those named in it or in `known` and the common ones."""
    block = r'^import\s*(?:\([^)]*\)|(?:\w+\s+)?"[^"]*")\s*$'
    named = re.findall(r'"([\w./-]+)"', "".join(re.findall(block, f"{known}\n{code}", re.M)))
    code = re.sub(rf"{block}|^package \w+\s*$", "", code, flags=re.M)
    plain = re.sub(r'//.*|/\*[\s\S]*?\*/|`[^`]*`|"(?:\\.|[^"\\\n])*"', "", code)
    used = [path for path in dict.fromkeys([*named, *GO_PACKAGES]) if re.search(rf"\b{path.split('/')[-1]}\.", plain)]
    imports = "".join(f'import "{path}"\n' for path in used)
    return f"package {package}\n\n{imports}\n{code}\n"


def without_crates(text: str) -> str:
    """Rust source without `use` lines of other crates; none is installed."""
    return re.sub(r"^use (?!(?:std|core|alloc|crate|self|super)\b)[^;]*;", "", text, flags=re.M)


def without_packages(text: str) -> str:
    """Java source without the import of javatuples, which MultiPL-E writes even if it is not used."""
    return re.sub(r"^import org\.javatuples\.[^;]*;", "", text, flags=re.M)


def shared(problem: Problem) -> set[str]:
    """The names that Rust tests use of the candidate: the problem's function, and what only the solution defines."""
    defined = re.findall(DEFINED, problem.canonical or "")
    return {problem.entry} | set(defined) & set(re.findall(r"\w+", problem.tests))


def candidate(problem: Problem, code: str) -> dict[str, str]:
    """The candidate's source files by name."""
    entry = problem.entry
    match problem.language:
        case "cpp":
            includes = "".join(f"#include <{name}>\n" for name in CPP_INCLUDES)
            exports = f"{{ global: {entry}; _Z{len(entry)}{entry}*; local: *; }};\n"
            return {"candidate.cpp": includes + code, "exports.map": exports}
        case "rust":
            names = "|".join(sorted(shared(problem)))
            code = re.sub(
                rf"^(\s*)((?:fn|enum|struct|type) (?:{names})\b)", r"\1pub \2", without_crates(code), flags=re.M
            )
            return {"candidate.rs": code}
        case "go":
            exported = f"package candidate\n\nvar LauncherEntry = {entry}\n"
            return {"candidate.go": go_file(code, "candidate", problem.imports), "entry.go": exported}
        case "java":
            return {f"{java_type(problem)}.java": without_packages(code)}
    raise AssertionError(problem.language)


def java_type(problem: Problem) -> str:
    """The class that holds the problem's function; empty for other languages."""
    return re.findall(r"^(?:public )?class (\w+)", problem.head, re.M)[-1] if problem.language == "java" else ""


def java_main(source: str) -> str:
    """The class that holds main()."""
    return re.findall(r"^class (\w+)", source[: source.index("static void main")], re.M)[-1]


def tests(problem: Problem, key: bytes) -> dict[str, str]:
    """The source files of the tests and their launcher by name."""
    before, signature = divided(problem)
    entry, numbers = problem.entry, ", ".join(map(str, key))
    body = problem.tests.lstrip().removeprefix("}") if problem.stops else problem.tests
    match problem.language:
        case "cpp":
            includes = "".join(f"#include <{name}>\n" for name in CPP_INCLUDES)
            launcher = (LAUNCHERS / "launcher.c").read_text().replace("KEY", numbers)
            return {"tests.cpp": f"{includes}{before}{signature};\n{body}", "launcher.c": launcher}
        case "rust":
            given = ", ".join(parameters(signature, "rust"))
            body = re.sub(r"/\*.*?\*/|#\[cfg\(test\)\]", "", body, flags=re.S)  # in one problem all is a comment
            body = re.sub(r"#\[test\]((?:\s*//[^\n]*)*)\s*fn", r"\1\npub fn", body)
            if "fn main()" in body:  # MultiPL-E's
                body = f"mod tests {{ use super::*; pub {body.strip()} }}"
            calls = "".join(f"tests::{name}();" for name in re.findall(r"pub fn (\w+)", body))
            uses = "".join(f"use candidate::{name};\n" for name in sorted(shared(problem) - {entry}))
            launcher = (
                (LAUNCHERS / "launcher.rs").read_text().replace("KEY]", f"{numbers}]").replace("TESTS\n", f"{calls}\n")
            )
            wrapper = f"{signature} {{ candidate::{entry}({given}) }}\n"
            return {"tests.rs": f"{without_crates(before)}{uses}{wrapper}{body}\n{launcher}"}
        case "go":
            kind = re.sub(rf"^func\s+{entry}", "func", signature)
            helpers = f'import "candidate"\n\n{before}\nvar {entry} {kind} = candidate.LauncherEntry\n'
            body = body.replace("*testing.T", "*LauncherT")
            calls = "; ".join(
                f'{name}(&LauncherT{{"{name}"}})' for name in re.findall(r"^\s*func (Test\w+)\(", body, re.M)
            )
            launcher = (
                (LAUNCHERS / "launcher.go").read_text().replace("KEY}", f"{numbers}}}").replace("TESTS\n", f"{calls}\n")
            )
            return {"tests.go": go_file(f"{helpers}{body}", "main", problem.imports), "launcher.go": launcher}
        case "java":
            given = "".join(f", {name}" for name in parameters(signature, "java"))
            kind = re.search(rf"(?:(?:public|static|private|protected)\s+)*(.+?)\s+{entry}\s*\(", signature)[1]
            call = f'{{ return ({kind}) Launcher.call("{java_type(problem)}", "{entry}"{given}); }}\n'
            closing = "" if problem.stops else "}\n"  # MultiPL-E's tests go on within the class
            key_class = f"class LauncherKey {{ static byte[] key() {{ return new byte[] {{{java_bytes(key)}}}; }} }}"
            source = f"{without_packages(before)}{signature} {call}{closing}{body}"
            return {"Tests.java": re.sub(r"^public class", "class", source, flags=re.M), "LauncherKey.java": key_class}
    raise AssertionError(problem.language)


def java_bytes(key: bytes) -> str:
    return ", ".join(f"(byte) {number}" for number in key)
