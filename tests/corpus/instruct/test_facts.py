"""scripts/corpus/instruct/facts.py: the types, functions, imports and documentation found in a source file."""

import ast
import random
import sysconfig
from pathlib import Path

import pytest

from scripts.corpus.instruct.facts import Facts, Type, facts_from
from scripts.corpus.instruct.functions import functions_of
from scripts.corpus.instruct.grammars import parse
from scripts.languages import syntaxes

SOURCES = Path(__file__).parent / "sources"


def facts_of(text: str, path: str, language: str) -> Facts | None:
    captures = parse(text, path, language)
    return None if captures is None else facts_from(captures, text, language)


EXPECTED = {
    "greeting.py": Facts(
        types=[Type("class", "Greeter", ["__init__", "name", "greet"]), Type("class", "Inner", ["method"])],
        functions=["top", "fallback"],
        imports=["os.path", "sys", "collections", ".", "..pkg", "json"],
        sentence="Tools for greeting people.",
    ),
    "Box.java": Facts(
        types=[
            Type("class", "Box", ["Box", "map"]),
            Type("interface", "Shape", ["area"]),
            Type("enum", "Colour", ["dark"]),
            Type("record", "Point", ["Point"]),
            Type("annotation", "Marked"),
        ],
        imports=["java.util", "java.lang.Math.max"],
        sentence=None,  # there it is `Holds a {@link Shape} safely.`
    ),
    "server.go": Facts(
        types=[
            Type("struct", "Server", ["Start", "stop"]),
            Type("interface", "Handler", ["Handle"]),
            Type("struct", "Pair", ["Swap"]),
            Type("type", "Elsewhere", ["Log", "Log2"]),
        ],
        functions=["New", "Map"],
        imports=["fmt", "net/http"],
        sentence="Package server answers all requests.",
    ),
    "shapes.rs": Facts(
        types=[
            Type("struct", "Circle", ["new", "fmt"]),
            Type("enum", "Kind"),
            Type("trait", "Shape", ["area", "name"]),
            Type("union", "Bits"),
            Type("type", "Other", ["o"]),
        ],
        functions=["free", "works"],
        imports=["std", "std::collections::HashMap", "crate::util", "serde"],
        sentence="Shapes and their areas.",
    ),
    "frob.c": Facts(
        types=[Type("struct", "widget"), Type("struct", "point"), Type("enum", "state"), Type("union", "value")],
        functions=["prototype", "name_of", "frob"],
        imports=["stdio.h", "frob/frob.h"],
        sentence="Frobs all widgets of a panel.",
    ),
    "box.cpp": Facts(
        types=[
            Type("class", "Box", ["Box", "~Box", "operator==", "put", "get"]),
            Type("enum", "Colour"),
            Type("struct", "Plain"),
        ],
        functions=["Foreign::method", "reference"],
        imports=["vector", "box.hpp"],
        sentence="A box that holds things.",
    ),
}
LANGUAGES = {".py": "python", ".java": "java", ".go": "go", ".rs": "rust", ".c": "c", ".cpp": "cpp"}


def text_of(name):
    return (SOURCES / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", EXPECTED)
def test_facts_are_those_a_reader_finds(name):
    assert facts_of(text_of(name), name, LANGUAGES[Path(name).suffix]) == EXPECTED[name]


def test_headers_are_read_as_cpp_whatever_their_extension_is_said_to_mean():
    assert facts_of(text_of("box.cpp"), "box.h", "c") == EXPECTED["box.cpp"]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("/** Reads all\n * the files of {@code a}. */", None),  # without its markup it is no quote
        ("/** Reads <b>all</b> the files. */", None),
        ("/** Reads all\n * the   files. */", "Reads all the files."),
        ("// Reads all\n// the files.", "Reads all the files."),
    ],
)
def test_a_sentence_is_quoted_only_if_it_stands_so_in_the_text(comment, expected):
    assert facts_of(f"{comment}\nclass A {{}}\n", "A.java", "java").sentence == expected


def by_ast(text):
    """(types with methods, functions, imports) of Python code by the `ast` module."""
    types, functions, imports = {}, {}, {}

    def visit(node, owner):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                (types[owner] if owner else functions)[child.name] = None
            elif isinstance(child, ast.ClassDef):
                types.setdefault(child.name, {})
                visit(child, child.name)
            else:
                visit(child, owner)

    tree = ast.parse(text)
    visit(tree, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name: None for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            imports["." * node.level + (node.module or "")] = None
    return {name: list(methods) for name, methods in types.items()}, list(functions), set(imports)


@pytest.mark.slow
def test_python_facts_agree_with_the_ast_module_on_the_standard_library():
    library = Path(sysconfig.get_path("stdlib"))
    paths = [*sorted(library.glob("*.py"))[::3], *sorted((library / "asyncio").glob("*.py"))]
    compared = 0
    for path in paths:
        text = path.read_text(errors="ignore")
        facts = facts_of(text, path.name, "python")
        if facts is None:
            continue
        types, functions, imports = by_ast(text)
        assert {item.name: item.methods for item in facts.types} == types, path
        assert facts.functions == functions, path
        assert set(facts.imports) == imports, path
        compared += 1
    assert compared > 60


@pytest.mark.parametrize("language", syntaxes())
@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "\n",
            "\0",
            "((((((((((" * 4000,
            "[" * 20_000 + "]" * 20_000,
            "{" * 40_000,
            "/*" * 20_000,
            '"""' * 10_001,
        ),
        *("class A{" * 6000, "def f(): " * 4000, "fn f(){" * 6000, "a." * 25_000, "\n" * 40_000, "<" * 40_000),
        *(
            "# " + " " * 40_000,
            "/*" + "\n *" * 15_000 + "*/",
            "𝟙" * 10_000,
            "func (",
            "impl",
            "type",
            "typedef struct {} ;",
        ),
    ],
)
def test_weird_input_crashes_nothing(language, text):
    facts_of(text, "x", language)


@pytest.mark.parametrize("name", EXPECTED)
def test_mutilated_sources_crash_nothing(name):
    rng, text = random.Random(name), text_of(name)
    for _ in range(150):
        broken = text
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(broken))
            broken = broken[:start] + rng.choice(["", "{", ")", '"', "::", "/*"]) + broken[start + rng.randint(0, 30) :]
        facts = facts_of(broken, name, LANGUAGES[Path(name).suffix])
        assert facts is None or all(item.name for item in facts.types)


def test_comments_for_tools_are_no_documentation():
    java = "class T {\n  // <editor-fold desc='x'>\n  // </editor-fold>\n  /** Returns the larger one of both. */\n"
    java += "  int f() {\n    int a = 1;\n    return a;\n  }\n}\n"
    assert functions_of(java, "T.java", "java")[0].documentation == "Returns the larger one of both."
    cpp = (
        "// NOLINTNEXTLINE(readability-make-member-function-const)\nint f(int b) {\n    int a = b;\n    return a;\n}\n"
    )
    assert functions_of(cpp, "a.cpp", "cpp") == [] and facts_of(cpp, "a.cpp", "cpp").sentence is None
