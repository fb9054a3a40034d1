"""Copy JSON lines to Parquet, for Spark or Polars: the same rows in the same order, in typed columns.

    python -m scripts.corpus.parquet --folders results/corpus/split --out results/corpus/parquet/split
    python -m scripts.corpus.parquet --folders results/corpus/filter/click results/corpus/filter/jinja ... \\
        --out results/corpus/parquet/filter-0

The rule runs with `corpus.parquet: true` alone. Each file of the folders' manifests becomes one Parquet file; of
several folders, as of the sources of a shard, the rows stand one after the other. A key
that a record lacks is null in its column. `marks`, in JSON lines (character, control token), are structs.
"""

import logging
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from scripts.common.cli import parser, run
from scripts.common.files import atomic, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest

JSON_LINES = ".jsonl.zst"
GROUP = 32 << 20  # characters of text of a row group, which is held in memory

# the columns, the same for every source and split
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


def characters(record: dict) -> int:
    """About how long a record is."""
    return len(record.get("text") or "") + sum(len(message["content"]) for message in record.get("messages", ())) + 200


def row_groups(records: Iterator[dict], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records in groups of about `GROUP` characters."""
    rows, size = [], 0
    for record in records:
        rows.append(row_of(record, columns))
        size += characters(record)
        if size >= GROUP:
            yield pa.RecordBatch.from_pylist(rows, columns)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, columns)


def parquet(folders: list[Path], out: Path) -> dict:
    """Write a Parquet file for each file of JSON lines in the folders to `out`; returns the manifest.

    Raises:
        UserError: a file is missing, or differs from its manifest.
    """
    manifests = [read_manifest(folder) for folder in folders]
    rows = {}
    for name in manifests[0]["files"]:
        columns, stem = columns_of(name, manifests[0].get("kind")), name.removesuffix(JSON_LINES)
        records = chain.from_iterable(read_jsonl(folder / name) for folder in folders)
        rows[stem] = 0
        with (
            atomic(out / f"{stem}.parquet") as temporary,
            ParquetWriter(temporary, columns, compression="zstd") as writer,
        ):
            for group in row_groups(records, columns):
                writer.write_batch(group)
                rows[stem] += len(group)
    logging.info(f"parquet {out.name}: {', '.join(f'{count:,} rows of {stem}' for stem, count in rows.items())}")
    return write_manifest(out, [f"{stem}.parquet" for stem in rows], rows=rows)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--folders", type=Path, nargs="+", required=True, help="folders of JSON lines with manifests"
    )
    arguments.add_argument("--out", type=Path, required=True, help="folder for the Parquet files")
    args = arguments.parse_args()
    parquet(args.folders, args.out)


if __name__ == "__main__":
    run(main)
