"""Read the command line of `stagecraft` and run its verb in the checkout's root.

    stagecraft plan --profile a40
    python -m scripts.cli plan --profile a40        # the same, where `make env` has not installed the command

Verbs are the modules of this folder. They import what they need when they run, so that help and completion need neither
torch nor Snakemake.
"""

import importlib
import os
import pkgutil
import sys
from typing import NoReturn

from cyclopts import App, CycloptsError, UnknownCommandError

import scripts.cli
from scripts.cli.command.options import root, suggestion
from scripts.common.cli import run

HELP = """Raw code repositories to an evaluated code model.

The run itself is Snakemake's: `snakemake --profile a40 results/eval.json`. These verbs are for before, during and after
it, from any folder of the checkout. `stagecraft VERB --help` shows an example of each."""


def command_line() -> App:
    """The verbs and their options."""
    app = App("stagecraft", help=HELP, help_format="plaintext", version_flags=[])
    for module in pkgutil.iter_modules(scripts.cli.__path__):
        if not module.ispkg and module.name != "__main__":
            verb = getattr(importlib.import_module(f"scripts.cli.{module.name}"), module.name)
            app.command(verb, name=module.name.replace("_", "-"))
    app.register_install_completion_command(help="Install the completion of verbs, options, profiles and experiments.")
    return app


def refuse(line: str) -> NoReturn:
    """End with one line about the command line."""
    print(f"error: {line}", file=sys.stderr)
    sys.exit(2)


def call(words: list[str]) -> None:
    """Run one command line.

    Raises:
        UserError: something that it names is not there, or what the verb raises.
        SystemExit: the command line is wrong (code 2), or by the verb.
    """
    app = command_line()
    try:
        verb, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except UnknownCommandError as error:
        word, verbs = error.unused_tokens[0], [name for name in app if not name.startswith("-")]
        if word.startswith("-"):
            refuse(f"{word}: options stand behind the verb, as in `stagecraft plan --profile a40`")
        refuse(f"{word}: no such verb; {suggestion(word, verbs)}")
    except CycloptsError as error:
        refuse(" ".join(str(error).split()))
    os.chdir(root())
    verb(*bound.args, **bound.kwargs)


def main() -> None:
    run(lambda: call(sys.argv[1:]))


if __name__ == "__main__":
    main()
