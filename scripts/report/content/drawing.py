"""The style of the report's pictures, and how they are saved: SVG whose bytes depend only on the data.

Text is stored as text and shown in the reader's font; the pictures load nothing.
"""

import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.figure import Figure

from scripts.common.files import atomic

# The page replaces INK by its text colour; the other colours are distinct on white and on black.
INK = "#1f2328"
GREY, BLUE, ORANGE, GREEN, RED = "#8c959f", "#3a86cf", "#d9822b", "#2f9e64", "#d1495b"
WIDTH = 5.2  # inches; the page has one column of pictures on a phone, two on a desktop

STYLE = {
    "svg.hashsalt": "stagecraft",  # otherwise ids are random
    "svg.fonttype": "none",
    "text.parse_math": False,  # a `$` in a name is a dollar
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
    **{f"axes.{part}": INK for part in ("labelcolor", "titlecolor")},
    "axes.edgecolor": GREY,
}


def save(picture: Callable[..., Figure], data: object, path: Path) -> None:
    """Draw `picture(data)` in the report's style into an SVG."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # the reader's font draws the text; the font that measures it here may lack glyphs
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = picture(data)
        with atomic(path) as temporary:
            no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure.savefig(temporary, format="svg", transparent=True, metadata=no_metadata)
        pyplot.close(figure)
