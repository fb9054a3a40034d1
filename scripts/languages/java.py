"""Java."""

from scripts.languages import Chat, Completion, Language, Syntax

LANGUAGE = Language("Java", (".java",), "//")


def grammar() -> object:
    import tree_sitter_java

    return tree_sitter_java.language()


SYNTAX = Syntax(
    grammar,
    """
    (method_declaration) @function
    (constructor_declaration) @function
    (compact_constructor_declaration) @function
    (object_creation_expression (class_body) @scope)
    (class_declaration) @type
    (interface_declaration) @type
    (enum_declaration) @type
    (record_declaration) @type
    (annotation_type_declaration) @type
    (import_declaration [(scoped_identifier) (identifier)] @import)
    (line_comment) @comment
    (block_comment) @comment
    """,
)


CHAT = Chat(
    imported=("类或包", "class or package", "classes or packages"),
    comments=frozenset({"line_comment", "block_comment"}),
    declaration_parents=frozenset({"program"}),
    holders=frozenset({"class_declaration", "interface_declaration", "enum_declaration", "record_declaration"}),
    between=frozenset({"marker_annotation", "annotation"}),
    test_paths=r"[a-z]Tests?\.java",
)
NAMES_TOO = "exports module open opens permits provides record requires sealed to transitive uses when with"
COMPLETION = Completion(
    functions=frozenset({"method_declaration", "constructor_declaration"}),
    bodies=frozenset({"block", "constructor_body"}),
    names_too=frozenset(NAMES_TOO.split()),
)
