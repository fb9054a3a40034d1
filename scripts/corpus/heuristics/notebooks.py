"""Jupyter notebooks as the code that is in them.

code_cells('{"cells": [{"cell_type": "code", "source": ["x = 1"], "outputs": []}]}')     # "x = 1\\n"
"""

import orjson

from scripts.corpus.heuristics.quality import Dropped


def code_cells(text: str) -> str:
    """The code cells of a notebook in their order, an empty line between them; outputs and prose are left out.

    Raises:
        Dropped: `notebook`, if the text is none.
    """
    try:
        notebook = orjson.loads(text)
        # version 3 had its cells in sheets, and called the source `input`
        cells = (
            notebook["cells"]
            if "cells" in notebook
            else [c for sheet in notebook["worksheets"] for c in sheet["cells"]]
        )
        sources = [cell.get("source", cell.get("input", "")) for cell in cells if cell["cell_type"] == "code"]
        parts = [source if isinstance(source, str) else "".join(source) for source in sources]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Dropped("notebook", f"not a notebook: {error!r:.100}") from error
    return "".join(f"{part.strip()}\n\n" for part in parts if part.strip()).removesuffix("\n")
