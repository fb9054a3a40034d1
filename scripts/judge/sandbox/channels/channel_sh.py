"""Shell: passes a call of the function under test from the tests' process to the candidate's; both sides are here.

    python channel_sh.py call READ WRITE ARGUMENT...       # in place of the function, in the tests' sandbox
    python channel_sh.py serve READ WRITE FILE FUNCTION    # in the candidate's sandbox

A message is a line of JSON: the arguments, or what the function wrote and its exit code.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

LONGEST = 16 << 20
GONE = Path("/tmp/stagecraft-gone")  # read by the tests' last command


def call(reader, writer: int, arguments: list[str]) -> int:
    try:
        os.write(writer, json.dumps(arguments).encode() + b"\n")
        line = reader.readline(LONGEST)
        output, code = json.loads(line)
        os.write(1, os.fsencode(output))
        return int(code) & 255
    except (OSError, ValueError, TypeError):
        GONE.touch()
        return 1


def serve(reader, writer: int, file: str, function: str) -> None:
    command = ["/bin/bash", "-c", f'source {file}; {function} "$@"', "bash"]
    while line := reader.readline(LONGEST):
        arguments = [os.fsencode(argument) for argument in json.loads(line)]
        done = subprocess.run([*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
        os.write(writer, json.dumps([os.fsdecode(done.stdout[: LONGEST // 8]), done.returncode]).encode() + b"\n")


def main() -> int | None:
    role, reading, writing, *rest = sys.argv[1:]
    reader = os.fdopen(int(reading), "rb", buffering=0 if role == "call" else -1)
    return call(reader, int(writing), rest) if role == "call" else serve(reader, int(writing), *rest)


if __name__ == "__main__":
    sys.exit(main())
