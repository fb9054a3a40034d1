"""C++: what C has, and more."""

from scripts.languages import Chat, Completion, Language, Paths, Syntax, c

LANGUAGE = Language(
    "C++",
    (".cpp", ".cc", ".cxx", ".c++", ".hpp", ".hh", ".hxx", ".h++", ".inl", ".ipp", ".tpp"),
    "//",
    aliases=("cxx",),
)
PATHS = Paths(generated=r"\.pb(\.gw|\.validate)?\.(cc|h)|(^|/)(moc|ui|qrc)_\w+\.(cpp|h)")


def grammar() -> object:
    import tree_sitter_cpp

    return tree_sitter_cpp.language()


SYNTAX = Syntax(grammar, c.QUERY + "(class_specifier body: (_)) @type (lambda_expression body: (_) @scope)")
CHAT = Chat(
    c.IMPORTED,
    comments=frozenset({"comment"}),
    declaration_parents=c.DECLARATION_PARENTS,
    holders=frozenset({"class_specifier", "struct_specifier"}),
)
COMPLETION = Completion(c.FUNCTIONS, c.BODIES, names_too=frozenset({"defined", "final", "noreturn", "override"}))
