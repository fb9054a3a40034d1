"""Find where a generated continuation of a file ends the region that it had to fill.

    region_end("line", "python", "    ", "x = 1\\nreturn x")     # 5

A line ends at its line end. A block or a body ends in Python before the first line that is indented less than its first
one, in languages with braces before the one that closes it; braces in strings and comments do not count.
"""

from scripts.languages import completions


def region_end(size: str, language: str, indentation: str, text: str) -> int | None:
    """The number of characters of `text` inside the region; None if it does not leave it.

    Args:
        size: one of SIZES of regions.py.
        indentation: what stands before the region's first line, on that line.
    """
    if size == "line":
        end = text.find("\n")
        return None if end < 0 else end
    braces = completions()[language].braces
    if braces is None:
        return dedent(indentation, text)
    depth = 0
    for match in braces.finditer(text):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth < 0:
            return match.start()
    return None


def dedent(indentation: str, text: str) -> int | None:
    """Where the first line after the first one begins that is indented less; empty lines do not count."""
    place = text.find("\n") + 1
    while place:
        end = text.find("\n", place)
        line = text[place : end if end >= 0 else len(text)]
        if line.strip() and not line.startswith(indentation):
            return place
        place = end + 1
    return None
