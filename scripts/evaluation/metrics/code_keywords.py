"""Keywords in a completion: anywhere in its text, and in the syntax of its code without comments and strings.

    in_syntax("def f(n): return f(n - 1)", "python", ["def", "pivot", "recursive"])  # [True, False, True]

In code, a keyword of the language (`class`) must occur as that keyword, a name (`pivot`) as part of an identifier
(ignoring case and underscores), and anything else (`sync.Mutex`) literally. Two keywords name a concept: `recursive` is
a function that uses its own name, `goroutine` is a go statement. Code that does not parse has none of them.
"""

import re
from collections.abc import Iterator

from tree_sitter import Node, QueryCursor

from scripts.corpus.syntax.grammars import grammar, tree
from scripts.evaluation.metrics.metric import means
from scripts.languages import syntax

SUITE = means("keywords", "structure")
FENCED = re.compile(r"^ *(`{3,}|~{3,})[^\n]*\n(.*?)(?:^ *\1|\Z)", re.MULTILINE | re.DOTALL)


def in_text(completion: str, keywords: list[str]) -> list[bool]:
    """Which keywords occur in a completion, ignoring case."""
    return [keyword.casefold() in completion.casefold() for keyword in keywords]


def code_of(completion: str) -> str:
    """The code blocks of a completion, also one that was cut off; the whole text if it has no code block."""
    return "\n".join(code for _, code in FENCED.findall(completion)) or completion


def leaves(node: Node, language: str) -> Iterator[Node]:
    """The tokens below a node in the order of the text, without comments, strings and characters."""
    nodes, characters = [node], syntax(language).characters
    while nodes:
        node = nodes.pop()
        if "comment" in node.type or "string" in node.type or node.type in characters:
            continue
        if node.child_count:
            nodes += reversed(node.children)
        else:
            yield node


def folded(name: str) -> str:
    return name.casefold().replace("_", "")


def recursive(root: Node, language: str) -> bool:
    """Whether a function's body names the function."""
    for function in QueryCursor(grammar(language)[1]).captures(root).get("function", []):
        name = function.child_by_field_name("name") or function.child_by_field_name("declarator")
        body = function.child_by_field_name("body") or function.parent.child_by_field_name("body")
        if name and body and any(leaf.text == name.text for leaf in leaves(body, language)):
            return True
    return False


def goroutine(root: Node, language: str) -> bool:
    """Whether there is a go statement."""
    return any(leaf.type == "go" for leaf in leaves(root, language))


CONCEPTS = {"recursive": recursive, "goroutine": goroutine}


def in_syntax(code: str, language: str, keywords: list[str]) -> list[bool]:
    """Which keywords occur in the syntax of the code."""
    root = tree(code, language)
    if root is None:
        return [False] * len(keywords)
    tokens = list(leaves(root, language))
    words, names = {token.type for token in tokens}, {folded(token.text.decode()) for token in tokens if token.is_named}
    text = " ".join(token.text.decode() for token in tokens)

    def has(keyword: str) -> bool:
        if keyword in CONCEPTS:
            return CONCEPTS[keyword](root, language)
        if grammar(language)[0].language.id_for_node_kind(keyword, False) is not None:
            return keyword in words
        if keyword.isidentifier():
            return any(folded(keyword) in name for name in names)
        parts = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", keyword)))
        return re.search(rf"(?<!\w){parts}(?!\w)", text) is not None

    return [has(keyword) for keyword in keywords]
