"""The source files of programs in compiled languages: one that holds the tests, and one that holds the candidate.

    sources = tests(problem)               # built once per problem
    sources = candidate(problem, code)     # built for each candidate, in a sandbox without the tests

In the tests' program the function under test is a stub: it sends its arguments to the candidate's program, which calls
the real function and returns the result and what became of the arguments (`channels/`, a file per language). So the
candidate's macros, classes, overloads and other symbols are not there when the tests are built or run.
"""

import re
from pathlib import Path

from scripts.judge.problem import BEGINS, IN_CLASSES, Problem
from scripts.judge.sandbox.libraries import NONE, Libraries

CHANNELS = Path(__file__).parent / "channels"

CPP_INCLUDES = ("stdlib.h", "algorithm", "math.h", "stdio.h", "vector", "string", "climits", "cstring", "iostream")
# The packages that the reference harness imports if the code uses them.
GO_PACKAGES = ("math", "strings", "fmt", "strconv", "time", "bytes", "regexp", "sort", "math/rand", "crypto/md5")

# Definitions in Rust code.
DEFINED = r"\b(?:fn|enum|struct|type) (\w+)"


def divided(problem: Problem) -> tuple[str, str]:
    """(the part of the head before the problem's function, the signature of that function)."""
    *_, function_start = re.finditer(BEGINS[problem.language], problem.head, re.M)
    # the brace at the end of a line: Go's `interface{}` may come before it
    body_start = re.compile(r"\{[ \t]*$", re.M).search(problem.head, function_start.end())
    return problem.head[: function_start.start()], problem.head[function_start.start() : body_start.start()].strip()


def parameters(signature: str, language: str) -> list[str]:
    """The names of a function's parameters."""
    if language == "rust":
        parameter_list = re.sub(r"::", "", signature[signature.index("(") :].split("->")[0])
        return re.findall(r"(\w+)\s*:", parameter_list)
    parameter_list, nested = signature[signature.index("(") + 1 : signature.rindex(")")], 1
    while nested:  # type arguments, the innermost first
        parameter_list, nested = re.subn(r"<[^<>]*>", " ", parameter_list)
    declarations = [part.split("=")[0] for part in parameter_list.split(",") if part.strip()]
    return [part.split()[-1].rstrip("[]").lstrip("*&") for part in declarations]


def go_file(code: str, package: str, known: str) -> str:
    """Go source that imports the packages it uses, out of those named in it or in `known` and the common ones."""
    block = r'^import\s*(?:\([^)]*\)|(?:\w+\s+)?"[^"]*")\s*$'
    imported = re.findall(r'"([\w./-]+)"', "".join(re.findall(block, f"{known}\n{code}", re.M)))
    code = re.sub(rf"{block}|^package \w+\s*$", "", code, flags=re.M)
    without_text = re.sub(r'//.*|/\*[\s\S]*?\*/|`[^`]*`|"(?:\\.|[^"\\\n])*"', "", code)
    used = [
        path
        for path in dict.fromkeys([*imported, *GO_PACKAGES])
        if re.search(rf"\b{path.split('/')[-1]}\.", without_text)
    ]
    imports = "".join(f'import "{path}"\n' for path in used)
    return f"package {package}\n\n{imports}\n{code}\n"


def without_crates(text: str) -> str:
    """Rust source without `use` lines of other crates; none is installed."""
    return re.sub(r"^use (?!(?:std|core|alloc|crate|self|super)\b)[^;]*;", "", text, flags=re.M)


def without_packages(text: str, libraries: Libraries) -> str:
    """Java source without the import of javatuples, which MultiPL-E writes even if it is not used, where it is not
    there."""
    if libraries.holds("org.javatuples.*"):
        return text
    return re.sub(r"^import org\.javatuples\.[^;]*;", "", text, flags=re.M)


def shared(problem: Problem) -> set[str]:
    """The names that Rust tests use of the candidate: the problem's function, and what only the solution defines."""
    defined = re.findall(DEFINED, problem.canonical or "")
    return {problem.entry} | set(defined) & set(re.findall(r"\w+", problem.tests))


def rust_tests(problem: Problem) -> str:
    """The tests' functions without comments: in one problem all is a comment."""
    body = problem.tests.lstrip().removeprefix("}") if problem.stops else problem.tests
    return re.sub(r"/\*.*?\*/|#\[cfg\(test\)\]", "", body, flags=re.S)


def rust_functions(problem: Problem) -> dict[str, str]:
    """The functions of the candidate that Rust tests call: signature by name, the problem's own first."""
    _, signature = divided(problem)
    signatures = {problem.entry: signature}
    for name in sorted(set(re.findall(r"\w+", rust_tests(problem))) - {problem.entry}):
        helper = re.search(rf"\bfn {name}\b[^{{]*", problem.canonical or "")
        if helper:
            signatures[name] = helper[0].strip()
    return signatures


def rust_enums(problem: Problem) -> dict[str, tuple[str, str]]:
    """The enums that Rust tests use and only the solution defines, by name: (definition, how its values are passed)."""
    enums = {}
    for name in shared(problem):
        enum = re.search(
            rf"(?:#\[[^\]]*\]\s*)*(?:pub )?enum {name}\s*(?:<([^>]*)>)?\s*\{{([^}}]*)\}}", problem.canonical or ""
        )
        if not enum:
            continue
        types = [part.strip() for part in (enum[1] or "").split(",") if part.strip()]
        giving = taking = ""
        for number, (variant, fields) in enumerate(re.findall(r"(\w+)\s*(\([^)]*\))?\s*,?", enum[2])):
            count = len([field for field in fields.strip("()").split(",") if field.strip()])
            names = [f"x{i}" for i in range(count)]
            written = "".join(f"stagecraft::Give::give({x}, out); " for x in names)
            pattern, read = ", ".join(names), ", ".join(["stagecraft::Take::take(from)"] * count)
            bracket = (lambda text: f"({text})") if fields else (lambda text: "")
            giving += f"{name}::{variant}{bracket(pattern)} => {{ out.push({number}); {written}}}\n"
            taking += f"{number} => {name}::{variant}{bracket(read)},\n"

        def header(trait: str) -> str:
            bounds = ", ".join(f"{type_name}: stagecraft::{trait}" for type_name in types)  # noqa: B023, used at once
            return f"impl<{bounds}> stagecraft::{trait} for {name}<{', '.join(types)}>"  # noqa: B023

        enums[name] = (
            enum[0],
            f"{header('Give')} {{ fn give(&self, out: &mut Vec<u8>) {{ match self {{ {giving} }} }} }}\n"
            f"{header('Take')} {{ fn take(from: &mut stagecraft::Reader) -> Self {{ match <u8 as stagecraft::Take>::"
            f'take(from) {{ {taking} _ => stagecraft::leave(121, "an unknown variant") }} }} }}\n',
        )
    return enums


def renamed(signature: str, entry: str, name: str) -> str:
    """A C++ signature with another name for the function, without what would keep it in one file."""
    external = re.sub(r"^(?:(?:static|inline|constexpr)\s+)+", "", signature)
    return re.sub(rf"\b{entry}(?=\s*\()", name, external, count=1)


def candidate(problem: Problem, code: str, libraries: Libraries = NONE) -> dict[str, str]:
    """The candidate's source files by name."""
    entry = problem.entry
    match problem.language:
        case "cpp":
            _, signature = divided(problem)
            call = f"{entry}({', '.join(parameters(signature, 'cpp'))})"
            return {"candidate.cpp": f"{code}\n{renamed(signature, entry, 'stagecraft_entry')} {{ return {call}; }}\n"}
        case "rust":
            arms = ""
            for number, (name, signature) in enumerate(rust_functions(problem).items()):
                arguments = ", ".join(["call.take()"] * len(parameters(signature, "rust")))
                give = "stagecraft::Give::give(&result, &mut call.reply)"
                arms += f"{number} => {{ let result = {name}({arguments}); {give} }}\n"
            serving = (
                '#[export_name = "main"] pub extern "C" fn stagecraft_main() -> i32 {\n'
                f"stagecraft::serve(|function, call| match function {{ {arms} _ => {{}} }}) }}\n"
            )
            passing_code = "".join(passing for _, passing in rust_enums(problem).values())
            return {"candidate.rs": f"#![no_main]\n{without_crates(code)}\n{passing_code}{serving}"}
        case "go":
            code = re.sub(r"^func\s+main\s*\(\s*\)", "func candidateMain()", code, flags=re.M)
            serving = f'package main\n\nimport "stagecraft"\n\nfunc main() {{ stagecraft.Serve({entry}) }}\n'
            return {"candidate.go": go_file(code, "main", problem.imports), "serve.go": serving}
        case "java":
            return {f"{class_of(problem)}.java": without_packages(code, libraries)}
    raise AssertionError(problem.language)


def class_of(problem: Problem) -> str:
    """The class that holds the problem's function; empty for languages that need none."""
    if problem.language not in IN_CLASSES:
        return ""
    return re.findall(r"^(?:public )?(?:static )?class (\w+)", problem.head, re.M)[-1]


def main_class(problem: Problem) -> str:
    """The class that holds the tests' main() in Java."""
    source = f"{problem.head}\n{problem.tests}"
    main_method = re.search(r"static (?:void|int) main\b", source)
    return re.findall(r"^(?:public )?(?:static )?class (\w+)", source[: main_method.start()], re.M)[-1]


def tests(problem: Problem, libraries: Libraries = NONE) -> dict[str, str]:
    """The source files of the tests by name."""
    before, signature = divided(problem)
    entry = problem.entry
    body = problem.tests.lstrip().removeprefix("}") if problem.stops else problem.tests
    match problem.language:
        case "cpp":
            declared, arguments = renamed(signature, entry, "stagecraft_entry"), ", ".join(parameters(signature, "cpp"))
            stub = f"{signature} {{ return stagecraft::Remote<decltype(&stagecraft_entry)>::call({arguments}); }}\n"
            serving = f"{before}{declared};\nint main() {{ stagecraft::serve(&stagecraft_entry); }}\n"
            return {"tests.cpp": f"{before}{declared};\n{stub}{body}", "serve.cpp": serving}
        case "rust":
            more = r"((?:\s*(?://[^\n]*|#\[(?!should_panic|ignore)[^\]]*\]))*)"
            body = re.sub(rf"#\[test\]{more}\s*(?:pub\s+)?fn", r"\1\npub fn", rust_tests(problem))
            if re.search(r"#\[(test|should_panic|ignore)\b", body):
                body += 'compile_error!("a test of this kind cannot be judged");'
            if "fn main()" in body:  # MultiPL-E's
                body = f"mod tests {{ use super::*; pub {body.strip()} }}"
            calls = "".join(f"stagecraft::ended(tests::{name}());" for name in re.findall(r"pub fn (\w+)", body))
            stubs = "".join(f"{definition}\n{passing}" for definition, passing in rust_enums(problem).values())
            for number, function in enumerate(rust_functions(problem).values()):
                names = parameters(function, "rust")
                mutable = "".join(f"let mut {name} = {name}; " for name in names)
                arguments = ", ".join(f"&mut {name}" for name in names)
                stubs += f"{function} {{ {mutable}stagecraft::call({number}, &mut [{arguments}]) }}\n"
            return {"tests.rs": f"{without_crates(before)}{stubs}{body}\nfn main() {{ stagecraft::open(); {calls} }}\n"}
        case "go":
            kind = re.sub(rf"^func\s+{entry}", "func", signature)
            stub = f'import "stagecraft"\n\n{before}\nvar {entry} {kind}\nfunc init() {{ stagecraft.Stub(&{entry}) }}\n'
            body = body.replace("*testing.T", "*stagecraft.T")
            calls = "; ".join(f"{name}(&stagecraft.T{{}})" for name in re.findall(r"^\s*func (Test\w+)\(", body, re.M))
            if not calls or re.search(r"^\s*func Example\w*\(", body, re.M):
                calls = "only_functions_named_Test_are_run()"  # does not compile, so the tests are at fault
            return {"tests.go": go_file(f"{stub}{body}\nfunc main() {{ {calls} }}\n", "main", problem.imports)}
        case "java":
            arguments = ", ".join(parameters(signature, "java"))
            result_type = re.search(rf"(?:(?:public|static|private|protected)\s+)*(.+?)\s+{entry}\s*\(", signature)[1]
            result = "" if result_type == "void" else f"return ({result_type}) "
            call = f"{{ {result}stagecraft.Channel.call({arguments}); }}\n"
            if len(parameters(signature, "java")) == 1:  # an array would be taken for the list of arguments
                call = call.replace(f"call({arguments})", f"call((Object) {arguments})")
            closing = "" if problem.stops else "}\n"  # MultiPL-E's tests go on within the class
            source = f"{without_packages(before, libraries)}{signature} {call}{closing}{body}"
            return {"Tests.java": re.sub(r"^public class", "class", source, flags=re.M)}
    raise AssertionError(problem.language)
