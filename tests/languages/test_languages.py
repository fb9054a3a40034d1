"""scripts/languages/: a file or a row is all that a language needs; grammars are imported only where one parses."""

import subprocess
import sys
from collections import Counter

import pytest

from scripts import languages as package
from scripts.common.errors import UserError
from scripts.common.files import read_jsonl
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, funnel
from scripts.corpus.instruct.facts import facts_from
from scripts.corpus.instruct.functions import functions_of
from scripts.corpus.instruct.grammars import grammar, parse
from scripts.corpus.instruct.tasks import examples_of
from scripts.evaluation.code_tasks.answers import SIZES
from scripts.evaluation.code_tasks.regions import regions
from scripts.evaluation.suites.completion import identifiers
from scripts.experiment.settings.corpus import Filter, InstructDataset
from scripts.languages import extensions_of, languages, names_by_alias, syntax, syntaxes
from tests.corpus.archives import write_archive

JAVA_LIKE = '''"""A language of one file."""

import re

from scripts.languages import Chat, Completion, Language, Syntax, java

LANGUAGE = Language("Kava", (".kava",), "--", aliases=("kv",))
SYNTAX = Syntax(java.grammar, java.SYNTAX.query)
CHAT = Chat(("单元", "unit", "units"), java.CHAT.comments, java.CHAT.declaration_parents)
COMPLETION = Completion(java.COMPLETION.functions, java.COMPLETION.bodies)
'''
TEXT = """import org.x.Other;

/** Adds all the numbers up. */
class Sum {
    // Adds two numbers to each other.
    int add(int one, int two) {
        int result = one + two;
        if (result > 0) {
            result = result + correction;
            result = result - correction;
        }
        return result;
    }
}
"""
CACHED = (languages, package.paths, syntaxes, package.chats, package.completions, grammar)


@pytest.fixture
def kava(tmp_path, monkeypatch):
    """A language that is added by nothing but a file in the folder."""
    (tmp_path / "kava.py").write_text(JAVA_LIKE)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    for cached in CACHED:
        cached.cache_clear()
    yield "kava"
    sys.modules.pop("scripts.languages.kava", None)
    for cached in CACHED:
        cached.cache_clear()


def test_a_language_with_a_grammar_is_one_file(kava):
    assert Filter.parse({"extensions": {".kava": kava}}, "e.yaml").extensions == {".kava": kava}
    assert names_by_alias()["kv"] == kava and extensions_of()[".kava"] == kava
    facts = facts_from(parse(TEXT, "Sum.kava", kava), TEXT, kava)
    assert (facts.types[0].name, facts.imports, facts.sentence) == ("Sum", ["org.x.Other"], "Adds all the numbers up.")
    [function] = functions_of(TEXT, "Sum.kava", kava)
    assert function.summary == "Adds two numbers to each other."
    settings = InstructDataset(kind="instruct", language="en", tasks={"analysis": 1})
    [chat] = examples_of({"text": TEXT, "path": "Sum.kava", "source": "s", "language": kava}, settings, 42)
    request, answer = (turn["content"] for turn in chat["messages"][1:])
    assert "Kava" in request and "This Kava code defines classes and methods." in answer and "unit `org.x" in answer
    assert {region.size for region in regions(TEXT, kava)} == set(SIZES)
    assert "add" in identifiers(TEXT, kava) and "class" not in identifiers(TEXT, kava)


GOOD = "".join(f"fun function{i}(argument: Int): Int {{\n    return argument + {i}\n}}\n\n" for i in range(9))


def test_a_language_without_a_grammar_goes_through_the_corpus_and_is_counted_where_one_is_needed(tmp_path):
    settings = Filter.parse({"extensions": {".kt": "kotlin", ".ts": "typescript"}}, "e.yaml")
    files = {f"{n}.{end}": GOOD.replace("9", str(n)).encode() for n in range(20, 40) for end in ("kt", "ts")}
    archive = write_archive(tmp_path / "raw", "demo", files)
    with funnel(tmp_path / "filter") as result:
        filter_archive(archive, "demo", settings, result)
    documents = list(read_jsonl(tmp_path / "filter" / DOCUMENTS))
    assert Counter(document["language"] for document in documents) == {"kotlin": 20, "typescript": 20}
    chats = InstructDataset(kind="instruct")
    assert {examples_of(document, chats, 42) for document in documents} == {"no_grammar"}


@pytest.mark.parametrize("needs", [grammar, syntax, lambda name: parse("", "", name)])
def test_without_a_grammar_what_needs_one_says_so_in_one_line(needs):
    with pytest.raises(UserError, match=r"^kotlin: no grammar of this language here; there are those of c, cpp, go"):
        needs("kotlin")


def test_a_language_whose_files_no_name_tells_is_refused_in_one_line():
    with pytest.raises(
        UserError, match=r"f.languages: no file's name tells twig; say in `extensions` how its files end$"
    ):
        Filter.parse({"languages": ["python", "twig"]}, "e.yaml", "f")
    assert Filter.parse({"extensions": {".twig": "twig"}}, "e.yaml", "f").extensions == {".twig": "twig"}


def test_all_languages_are_read_by_default_and_formats_of_data_where_they_are_named():
    read = extensions_of()
    for ends, name in {
        ".js .jsx .mjs": "javascript", ".ts .tsx": "typescript", ".py .pyi .pyw": "python", ".pyx .pxd": "cython",
        ".cu .cuh": "cuda", ".cs": "csharp", ".rb": "ruby", ".kt": "kotlin", ".swift": "swift", ".sh .zsh": "shell",
        ".sql": "sql", ".hs": "haskell", ".jl": "julia", ".R .r": "r", ".pl .pm": "perl", ".html": "html",
        ".css": "css",
        ".md": "markdown", ".ipynb": "jupyter", ".vue": "vue", ".zig": "zig", ".v": "verilog", ".m": "objective-c",
        ".h": "c_or_cpp", ".proto": "protobuf", "Makefile": "make", "Dockerfile": "docker", ".f90": "fortran",
    }.items():  # fmt: skip
        assert {read.get(end) for end in ends.split()} == {name}, ends
    assert (
        not {
            ".eps",
            ".pro",
            ".nb",
            ".tmpl",
            ".mod",
            ".def",
            ".json",
            ".yaml",
            ".xml",
            ".svg",
            ".txt",
            ".csv",
            ".toml",
            ".ini",
            ".log",
            "poetry.lock",
        }
        & read.keys()
    )
    assert extensions_of(["yaml", "go"]) == {".go": "go", ".yaml": "yaml", ".yml": "yaml"}
    assert extensions_of(["matlab", "prolog"]) == {".m": "matlab", ".ecl": "prolog", ".prolog": "prolog",
                                                   ".pro": "prolog", ".pl": "prolog"}  # fmt: skip
    assert extensions_of(["matlab", "objective-c", "perl", "prolog"])[".m"] == "objective-c" == read[".m"]
    assert extensions_of(["bibtex"]) == {".bib": "bibtex"} and ".bib" not in read
    assert extensions_of(["c"])[".h"] == "c" and extensions_of(["cpp"])[".h"] == "cpp"
    assert extensions_of(["c", "cpp"])[".h"] == "c_or_cpp"


def test_no_two_languages_have_an_extension_or_a_name_in_common():
    extensions = [end for language in languages().values() for end in language.extensions]
    names = [alias for name, language in languages().items() for alias in {name, *language.aliases}]
    assert len(extensions) == len(set(extensions)) and len(names) == len(set(names))


def test_looking_a_language_up_imports_no_grammar():
    code = (
        "from scripts.experiment.settings.experiment import Experiment; from scripts.languages import *; import sys\n"
    )
    code += "languages(), syntaxes(), chats(), completions(), extensions_of()\n"
    code += "assert not [name for name in sys.modules if name.startswith('tree_sitter')]"
    subprocess.run([sys.executable, "-c", code], check=True)
