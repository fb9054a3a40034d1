"""The typed columns of documents, rejects and examples in Parquet, the same for every source and split.

A key that a record lacks is null in its column. `marks`, in JSON lines (character, control token), are structs.
"""

import pyarrow as pa

TEXT = pa.string()
QUALITY = ("score", "parse", "documentation", "structure", "repetition", "origin")
DOCUMENTS = pa.schema(
    {
        "text": TEXT,
        "path": TEXT,
        "source": TEXT,
        "language": TEXT,
        "licence": TEXT,
        "quality": pa.struct({name: pa.float64() for name in QUALITY}),
        "encoding": TEXT,
        "sha256": TEXT,
        "cluster": TEXT,
    }
)
REJECTS = pa.schema(dict.fromkeys(("path", "source", "language", "reason", "detail"), TEXT))
EXAMPLE = dict.fromkeys(("id", "language", "source", "licence"), TEXT)
TEXTS = pa.schema(EXAMPLE | {"text": TEXT})
MARKS = {"marks": pa.list_(pa.struct({"character": pa.int64(), "token": TEXT})), "files": pa.list_(TEXT)}
REPOSITORIES = pa.schema(EXAMPLE | {"text": TEXT} | MARKS)
CHATS = pa.schema(EXAMPLE | {"task": TEXT, "messages": pa.list_(pa.struct({"role": TEXT, "content": TEXT}))})
OF_KIND = {"code": TEXTS, "text": TEXTS, "repository": REPOSITORIES, "instruct": CHATS, "chat": CHATS}


def columns_of(file: str, kind: str | None) -> pa.Schema:
    """The columns of a file of JSON lines; `kind` is that of its dataset, None where it holds no examples."""
    if kind:
        return OF_KIND[kind]
    return REJECTS if file.startswith("rejects") else DOCUMENTS


def row_of(record: dict, columns: pa.Schema) -> dict:
    """A record as a row."""
    assert record.keys() <= {*columns.names}, f"no column for {record.keys() - {*columns.names}}"
    if "marks" in record:
        record = record | {"marks": [{"character": at, "token": token} for at, token in record["marks"]]}
    return record
