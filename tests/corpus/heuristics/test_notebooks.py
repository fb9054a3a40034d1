"""Notebooks: code cells in their order without outputs, of both layouts; what is no notebook is a reject."""

import json

import pytest

from scripts.common.files import read_jsonl
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.corpus.heuristics.encodings import code_cells
from scripts.corpus.heuristics.quality import Dropped
from scripts.experiment.settings.corpus import Filter
from tests.corpus.archives import GOOD, write_archive

CELLS = [
    {"cell_type": "markdown", "source": ["# A title\n"]},
    {"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": [{"text": "SECRET OUTPUT"}]},
    {"cell_type": "code", "source": "", "outputs": []},
    {"cell_type": "code", "source": "y = 2\n"},
]


def test_code_cells_of_both_layouts_are_kept_without_outputs():
    assert code_cells(json.dumps({"cells": CELLS})) == "x = 1\nx\n\ny = 2\n"
    old = [{"cell_type": "code", "input": ["x = 1\n"]}, {"cell_type": "code", "input": "y = 2"}]
    assert code_cells(json.dumps({"worksheets": [{"cells": old}]})) == "x = 1\n\ny = 2\n"
    assert code_cells('{"cells": []}') == ""


@pytest.mark.parametrize(
    "text", ["", "x = 1", "[]", "{}", '{"cells": 3}', '{"cells": [{"cell_type": "code", "source": [1]}]}']
)
def test_what_is_no_notebook_is_dropped(text):
    with pytest.raises(Dropped) as caught:
        code_cells(text)
    assert caught.value.reason == "notebook"


def test_a_notebook_is_a_document_of_its_code(tmp_path):
    code = {"cells": [*CELLS, {"cell_type": "code", "source": GOOD.decode()}], "nbformat": 4}
    archive = write_archive(
        tmp_path / "raw", "demo", {"a.ipynb": json.dumps(code).encode(), "b.ipynb": b"{}" * 99, "C.PY": GOOD}
    )
    with funnel(tmp_path / "out") as result:
        filter_archive(archive, "demo", Filter(), result)
    documents = {document["path"]: document for document in read_jsonl(tmp_path / "out" / DOCUMENTS)}
    assert {path: document["language"] for path, document in documents.items()} == {
        "a.ipynb": "jupyter",
        "C.PY": "python",
    }
    text = documents["a.ipynb"]["text"]
    assert text.startswith("x = 1") and "OUTPUT" not in text and GOOD.decode().strip() in text
    assert [reject["reason"] for reject in read_jsonl(tmp_path / "out" / REJECTS)] == ["notebook"]
