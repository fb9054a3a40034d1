"""A task as an instruction and its answer: signature and docstring of a function → the body that its tests accept.

instruction_of(task).chat()      # {"id": ..., "messages": [user, assistant]}
"""

import ast
import textwrap
from dataclasses import dataclass

from scripts.evaluation.repository_functions.functions import functions
from scripts.evaluation.repository_functions.task import RepositoryTask


@dataclass(frozen=True)
class Instruction:
    """A task as an instruction.

    Attributes:
        head: the function up to its body, with decorators and docstring, not indented.
        body: what follows.
        documented: whether there is a docstring.
    """

    task: RepositoryTask
    head: str
    body: str
    documented: bool

    @property
    def request(self) -> str:
        """The request, as a user would write it."""
        name, _, function = self.task.function.rpartition(".")
        kind = f"the method `{function}` of the class `{name}`" if name else f"the function `{function}`"
        return f"Complete {kind} of the module `{self.task.module}`.\n\n```python\n{self.head}```\n"

    def chat(self) -> dict:
        """A chat as datasets of `kind: chat` read them."""
        answer = f"```python\n{self.head}{self.body}\n```"
        messages = [{"role": "user", "content": self.request}, {"role": "assistant", "content": answer}]
        return {"id": self.task.id, "source": self.task.source, "messages": messages}


def instruction_of(task: RepositoryTask) -> Instruction:
    """The instruction of a task."""
    text = task.before + task.answer + task.after
    function = next(
        candidate
        for candidate in functions(task.path, task.module, text)
        if (candidate.name, candidate.line) == (task.function, task.line) and candidate.cut(text).before == task.before
    )
    lines = text.split("\n")
    function_text = textwrap.dedent("\n".join(lines[function.line - 1 : function.region.last + 1]))
    count = function.region.first - (function.line - 1)
    parts = function_text.split("\n")
    head, body = "\n".join(parts[:count]), "\n".join(parts[count:])
    documented = ast.get_docstring(ast.parse(function_text).body[0]) is not None
    return Instruction(task, f"{head}\n", body, documented)
