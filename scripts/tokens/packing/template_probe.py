"""Render a chat template once in a process of its own, with limits on time and memory, before it is trusted here.

    echo '{"source": "...", "tokens": {}}' | python -m scripts.tokens.packing.template_probe

A template of somebody's model is a program: it may divide by zero, call itself for ever or write 9 GB.
"""

import json
import resource
import subprocess
import sys

from scripts.common.errors import UserError

SECONDS = 5
MEMORY = 512 << 20  # bytes
CHATS = (("user", "assistant"), ("system", "user", "assistant"), ("user", "assistant", "user", "assistant"))


def probe(source: str, tokens: dict[str, str], place: str) -> None:
    """Render the template for a few chats in a child process.

    Args:
        tokens: name → text of the control tokens that the template may use.
        place: the folder or file that the template is in, for errors.

    Raises:
        UserError: it takes too long or too much memory, or it fails otherwise than by refusing the roles.
    """
    command = [sys.executable, "-m", "scripts.tokens.packing.template_probe"]
    given = json.dumps({"source": source, "tokens": tokens})
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=4 * SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"{place}: chat template: it does not end within {SECONDS} seconds") from None
    if done.returncode < 0:
        raise UserError(f"{place}: chat template: it does not end within {SECONDS} seconds")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise UserError(f"{place}: chat template: {last}")


def main() -> None:
    import jinja2

    from scripts.tokens.packing.chat_template import environment_of

    given = json.loads(sys.stdin.read())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        template = environment_of(given["tokens"]).from_string(given["source"])
        for roles in CHATS:
            messages = [{"role": role, "content": "text"} for role in roles]
            try:
                template.render(messages=messages, add_generation_prompt=False)
            except jinja2.TemplateRuntimeError:
                raise
            except jinja2.TemplateError:  # it may refuse some roles
                continue
    except MemoryError:
        sys.exit(f"it takes more than {MEMORY >> 20} MiB")
    except RecursionError:
        sys.exit("it calls itself without an end")
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
