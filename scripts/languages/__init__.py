"""What the project knows about programming languages: a file for each, a row of `others.py`, or Pygments'
table, which that module reads.

    languages()["cpp"].title        # "C++"
    syntax("kotlin")                # UserError, one line: Kotlin is a row, it has no grammar here

A file is named after its language and found by listing this folder. It holds up to six constants. Each is looked up by
itself, so that an edit of the words for chats reruns what makes chats, and not the filter:

    LANGUAGE      extensions and comments: all that filter, split, pack and perplexity need
    PATHS         names of its generated files
    SYNTAX        its grammar, and the query for what a file defines and imports
    CHAT          what chats about its code need
    COMPLETION    what tasks in its files need

A grammar is imported only where something is parsed.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from scripts.common.discovery import constants_in
from scripts.common.errors import UserError

BY_CONTENT = "c_or_cpp"  # in the place of a language: a header is C or C++ by what is in it


@dataclass(frozen=True)
class Language:
    """A language.

    Attributes:
        title: its name in prose.
        extensions: of its files.
        comment: what begins a comment that ends with the line.
        by_content: extensions that another language has, too; the content decides.
        aliases: other names, in lower case, in benchmarks and of folders.
        data: whether it is a format of data and settings, whose files are read only where an experiment names it.
    """

    title: str
    extensions: tuple[str, ...]
    comment: str
    by_content: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    data: bool = False


@dataclass(frozen=True)
class Paths:
    """Regular expressions for paths in a repository.

    Attributes:
        generated: the end of a generated file's path, in upper or lower case; empty for none.
    """

    generated: str = ""


@dataclass(frozen=True)
class Syntax:
    """How a language is parsed.

    Attributes:
        grammar: imports and returns tree-sitter's grammar.
        query: its captures @function, @type and @owner (Rust's impl) are definitions, @scope is another body with local
            definitions, @import is the name of an import, @comment and @doc hold prose.
        docstrings: whether the first statement of a body may be its documentation, as in Python.
        parsed_as: extension of a file → the language whose grammar parses it.
    """

    grammar: Callable[[], object]
    query: str
    docstrings: bool = False
    parsed_as: tuple[tuple[str, str], ...] = ()


# Comment marks of C, C++, Java, Go, Rust (`/** */`, `///`, `//!`) and Python (`#`).
COMMENT_MARKS = re.compile(r"^[ \t]*(?:/\*[*!]*<?|\*+/|\*+(?=\s|$)|//+!?<?|#+!?)[ \t]?|\*+/[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Chat:
    """What chats about code need; the sets hold types of the grammar's nodes.

    Attributes:
        imported: what an import names: in Chinese, in English, in English for several.
        comments: comments.
        declaration_parents: nodes whose comments describe declarations; other comments describe a statement or an item
            of a list.
        holders: types whose methods lie inside them.
        between: what may lie between a comment and the function that it documents, as an annotation.
        marks: what is taken out of a comment to get its text.
        test_paths: regular expression for the end of a test's path, in upper or lower case; empty for none.
    """

    imported: tuple[str, str, str]
    comments: frozenset[str]
    declaration_parents: frozenset[str]
    holders: frozenset[str] = frozenset()
    between: frozenset[str] = frozenset()
    marks: re.Pattern = COMMENT_MARKS
    test_paths: str = ""


# Braces of C, C++, Java, Go, Rust, and what may hold braces that do not count.
BRACES = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"  # comments
    r'|"(?:\\.|[^"\\\n])*"|`[^`]*`'  # strings
    r"|'(?:\\.|[^'\\\n])'"  # characters; not the lifetimes of Rust
    r"|[{}]",
    re.DOTALL,
)
STRINGS = re.compile(r'"(?:\\.|[^"\\])*"|' r"'(?:\\.|[^'\\])'", re.DOTALL)  # lifetimes in Rust have one quote


@dataclass(frozen=True)
class Completion:
    """What tasks in a file need, whose answer is a line or the body of a function.

    Attributes:
        functions: types of the nodes that are functions with a body.
        bodies: types of the nodes that hold the statements of a body.
        braces: finds the braces that end a block, and what may hold others; None where the indentation ends it.
        strings: finds strings and characters.
        names_too: words of the grammar that are keywords in some places alone: anywhere else they are names, and mostly
            are.
    """

    functions: frozenset[str]
    bodies: frozenset[str]
    braces: re.Pattern | None = BRACES
    strings: re.Pattern = STRINGS
    names_too: frozenset[str] = frozenset()


@cache
def languages() -> dict[str, Language]:
    """All languages by name: those with a file, then the rows."""
    known = constants_in(__name__, "LANGUAGE")
    for rows in constants_in(__name__, "ROWS").values():
        known |= rows
    return known


@cache
def paths() -> dict[str, Paths]:
    return constants_in(__name__, "PATHS")


@cache
def syntaxes() -> dict[str, Syntax]:
    """The languages with a grammar."""
    return constants_in(__name__, "SYNTAX")


@cache
def chats() -> dict[str, Chat]:
    return constants_in(__name__, "CHAT")


@cache
def completions() -> dict[str, Completion]:
    return constants_in(__name__, "COMPLETION")


def syntax(name: str) -> Syntax:
    """How a language is parsed. Raises UserError: it has no grammar."""
    if name not in syntaxes():
        raise UserError(f"{name}: no grammar of this language here; there are those of {', '.join(syntaxes())}")
    return syntaxes()[name]


def extensions_of(names: Collection[str] | None = None) -> dict[str, str]:
    """Extension, or whole name of a file → language, or `BY_CONTENT`, of these languages' files.

    Args:
        names: of the languages, each with all its endings, as `.m` of MATLAB; None for all but formats of data, each
            ending with the most frequent of its languages.
    """
    from scripts.languages.others import CLAIMS, FILES

    chosen = {}
    if names is None:
        names = {name for name, language in languages().items() if not language.data}
    else:
        for end, claiming in CLAIMS.items():
            named = [name for name in claiming if name in names]
            if named:
                chosen[end] = named[0]
    for end, name in FILES.items():
        if name in names:
            chosen[end] = name
    for name, language in languages().items():
        if name in names:
            chosen |= dict.fromkeys(language.extensions, name)
            content = {end: BY_CONTENT if {"c", "cpp"} <= set(names) else name for end in language.by_content}
            chosen |= content
    if "cpp" in names and "c" not in names:
        chosen[".h"] = "cpp"
    return chosen


def some_names(wrong: str) -> str:
    """Names of languages for an error about a wrong name: first the language that it means (`c#` is csharp), then
    similar names, then the languages with a grammar."""
    names = [*get_close_matches(wrong.lower(), languages(), n=5), *syntaxes()]
    meant = names_by_alias().get(wrong.lower())
    if meant:
        names.insert(0, meant)
    return ", ".join(dict.fromkeys(names))


def names_by_alias() -> dict[str, str]:
    """Every name that a language goes by, in lower case → its name."""
    known = {}
    for name, language in languages().items():
        known |= dict.fromkeys((name, language.title.lower(), *language.aliases), name)
    return known
