"""Documents of whole repositories, in the form that Qwen2.5-Coder was trained on:

    <|repo_name|>click
    <|file_sep|>src/click/_compat.py
    import codecs
    ...
    <|file_sep|>src/click/utils.py
    ...

An example's `text` is all of this without the control tokens, and `marks` lists (position in `text`, token) of each
one. The encoder inserts the tokens there; everything else reads the example as plain text. A control token that is
spelt out in a file stays text.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from scripts.corpus.syntax.imports import sort_by_imports
from scripts.experiment.settings.corpus import FILE_SEPARATOR, REPOSITORY_NAME


def repository_documents(documents: Iterable[dict], max_characters: int) -> Iterator[dict]:
    """Yield one example per repository; a repository of more than `max_characters` gives several.

    A file that is longer than that by itself is an example of its own.

    Args:
        documents: of a split; those of one source are consecutive.
    """
    for source, group_documents in groupby(documents, key=lambda document: document["source"]):
        group, size = [], 0
        for document in sort_by_imports(list(group_documents)):
            length = len(document["path"]) + len(document["text"]) + 2
            if group and size + length > max_characters:
                yield example(source, group)
                group, size = [], 0
            group.append(document)
            size += length
        yield example(source, group)


def example(source: str, documents: list[dict]) -> dict:
    """The example made of these files of a repository; its id is that of the first file."""
    parts, marks, at = [f"{source}\n"], [[0, REPOSITORY_NAME]], len(source) + 1
    for document in documents:
        marks.append([at, FILE_SEPARATOR])
        text = f"{document['path']}\n{document['text']}"
        parts.append(text if text.endswith("\n") else text + "\n")
        at += len(parts[-1])
    characters: dict[str, int] = {}
    for document in documents:
        characters[document["language"]] = characters.get(document["language"], 0) + len(document["text"])
    named = {document["licence"] for document in documents if "licence" in document}
    licences = {f"({licence})" if " OR " in licence and len(named) > 1 else licence for licence in named}
    return {
        "id": f"{source}/{documents[0]['path']}",
        "language": max(sorted(characters), key=characters.get),
        "source": source,
        **({"licence": " AND ".join(sorted(licences))} if licences else {}),
        "text": "".join(parts),
        "marks": marks,
        "files": [document["path"] for document in documents],
    }
