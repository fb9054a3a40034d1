"""`stagecraft sources`."""

from pathlib import Path

from scripts.cli.command.options import File, Folder


def sources(folder: Folder, /, *, out: File = Path("config/my-sources.tsv")) -> None:
    """Write a table of sources from folders priority/language/repository, each pinned by its commit or content.

    For example:

        stagecraft sources ~/repositories --out config/mine.tsv

    Args:
        folder: It holds high/ and medium/, these Python/, java/, C++/ ..., and these the repositories.
        out: The table to write; it must not exist yet.
    """
    from scripts.sources.tables.from_folder import make_table

    make_table(folder, out)
