"""scripts/evaluation/benchmarks/prompts.py: where completions end, and which code of an answer counts."""

from dataclasses import replace

import pytest

from scripts.evaluation.benchmarks.formats import humaneval, mbpp, read
from scripts.evaluation.benchmarks.prompts import block, end, program
from tests.evaluation.benchmarks.test_formats import HUMANEVAL, MBPP
from tests.judge.sandbox.programs import CPP_PROBLEM, RIGHT

PYTHON = humaneval({**HUMANEVAL, "prompt": 'import math\n\n\ndef f(x):\n    """One more."""\n'})


def test_an_mbpp_completion_stands_alone_and_keeps_its_functions():
    problem = mbpp(MBPP)
    written = "import re\ndef helper(): pass\ndef remove(s, c):\n    return s"
    assert program(problem, f"{written}\nassert remove('', '')\n", "completion") == written


def test_braces_end_a_humaneval_x_completion():
    written = f"{RIGHT}\n}}"
    assert end(CPP_PROBLEM, written[:-1]) is None
    code = program(CPP_PROBLEM, f"{written}\n\nint more() {{ }}\n", "completion")
    assert code == CPP_PROBLEM.head + written


def test_the_canonical_solutions_are_not_cut(benchmarks):
    cut = []
    for name in ("HumanEval", "humaneval_cpp"):
        for problem in read(benchmarks / f"{name}.jsonl.gz"):
            position = end(problem, problem.canonical)
            cut += [problem.id] if position and problem.canonical[position:].strip() else []
            assert problem.language == "python" or position
    assert cut == ["CPP/94"]  # it ends with what its tests begin with


ANSWERS = {
    "Sure:\n```python\ndef f(x):\n    return 2\n```\nDone.": "def f(x):\n    return 2\n",
    "```\nx = 1\n```\nand\n```py\ndef f(x): return 2\n```": "def f(x): return 2\n",
    "```python\ndef f(x):\n    return 2": "def f(x):\n    return 2",
    "def f(x): return 2": "def f(x): return 2",
    "Sure! So it is:\n\ndef f(x):\n    return 2\n\nIt returns 2.": "def f(x):\n    return 2\n",
    "Solution:\nimport math\ndef f(x):\n    return 2": "import math\ndef f(x):\n    return 2",
    "It is:\n<pre><code class='python'>def f(x):\n    return 1 if x &lt; 2 else 2\n</code></pre>": (
        "def f(x):\n    return 1 if x < 2 else 2\n"
    ),
    "[PYTHON]\ndef f(x):\n    return 2\n[/PYTHON]\n[TESTS]\nassert f(1)\n[/TESTS]": "def f(x):\n    return 2\n",
    "**Solution**\n\ndef f(x):\n    return 2\n\nIt's 2.": "def f(x):\n    return 2\n",
    "here:\n\n    def f(x):\n        return 2\n\nDone.": "def f(x):\n    return 2\n",
    "def f(x):\n    return 2\n\nIt returns 2.": "def f(x):\n    return 2\n",
    "With a constant:\n\nN = 2\ndef f(x):\n    return N\n\nDone.": "N = 2\ndef f(x):\n    return N\n",
    "<answer>\ndef f(x):\n    return 2\n</answer>": "def f(x):\n    return 2",
    "'''python\ndef f(x):\n    return 2\n'''": "def f(x):\n    return 2",
    "<code>def f(x):\n    return 2</code>": "def f(x):\n    return 2",
    "Answer: ```python\ndef f(x):\n    return 2\n```": "def f(x):\n    return 2\n",
    "```python\ndef f(x):\n    return 2``` is it.": "def f(x):\n    return 2``` is it.",
    "```python\ndef f(x):\n    return 2```\nDone.": "def f(x):\n    return 2",
    "from here\ndef g(x):\n    return 2": "from here\ndef g(x):\n    return 2",  # another function
    "    return 1\n\ndef g(:\n": "    return 1\n\ndef g(:\n",  # a body with a fault is no sentence
    "X = 1\ndef f(x):\n    return X +": "X = 1\ndef f(x):\n    return X +",
    "1. A list:\n\n  ```python\n  def f(x):\n      return 2\n  ```": "def f(x):\n    return 2\n",
    "> It is:\n> ```python\n> def f(x):\n>\n>     return 2\n> ```\n> Done.": "def f(x):\n\n    return 2\n",
    "> 1. So:\n>    ```\n>    def f(x): '''\n>    >>> f(1)'''\n>    ```": "def f(x): '''\n>>> f(1)'''\n",
    "It is\n\n1. ```python\n   def f(x):\n       return 2\n   ```\n2. Done.": "def f(x):\n    return 2\n",
    "- > ```\n  > def f(x):\n  >     return 2\n  > ```": "def f(x):\n    return 2\n",
    "Usage:\n```python\nprint(f(1))\n```\nIt is\n```python\ndef f(x): return 2\n```": "def f(x): return 2\n",
    "~~~python\ndef f(x): return 2\n~~~\n": "def f(x): return 2\n",
    "In ```f(1)``` is\n````python\ndef f(x): '''\n```\nf(1)\n```\n'''\n````": "def f(x): '''\n```\nf(1)\n```\n'''\n",
    "```\ndef f(x):\n    '''\n    ```\n    f(1)\n    ```\n    '''\n```": (
        "def f(x):\n    '''\n    ```\n    f(1)\n    ```\n    '''\n"
    ),
    "<think>```\ndef f(x): return 1\n```\nNo.</think>\n```\ndef f(x): return 2\n```<|im_end|>": "def f(x): return 2\n",
    "```python\r\ndef f(x): return 2\r\n```\r\n": "def f(x): return 2\n",
    "```python\n    return 2\n```\nAs in\n```\ny = 1\n```": "    return 2\n",
    # helpers in other blocks, of which one needs an import; a block of examples is none
    "```\ndef f(x): return g(x)\n```\n```\ndef g(x): return math.pi\n```\n```\nimport math\n```\n```\nf(1)\n```": (
        "def g(x): return math.pi\n\nimport math\n\ndef f(x): return g(x)\n"
    ),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_of_several_code_blocks_the_one_with_the_function_counts(answer):
    assert block(PYTHON, answer) == ANSWERS[answer]


DRAFT, FINAL = "def f(x): return 1", "def f(x): return 2"
THOUGHT = {
    "<think>{}</think>{}": True,
    "<thinking>\n{}\n</thinking>\n\n{}": True,
    "<reasoning>{}</reasoning>\n{}": True,
    "<seed:think>{}</seed:think>{}": True,
    "[THINK]{}[/THINK]{}": True,
    "<|begin_of_thought|>{}<|end_of_thought|>\n{}": True,
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}": True,
    "analysisWe write {}assistantfinal{}": True,
    "{}</think>{}": True,  # the template has opened it
    "<think>{}": False,
    "<seed:think>{} and then": False,
    "[THINK]{}": False,
}


@pytest.mark.parametrize("form", THOUGHT)
def test_what_a_model_thinks_is_not_its_answer_and_thinking_without_an_end_is_none(form):
    draft, final = f"```python\n{DRAFT}\n```\n", f"```python\n{FINAL}\n```"
    assert block(PYTHON, form.format(draft, final)) == (f"{FINAL}\n" if THOUGHT[form] else "")


def test_marks_of_thinking_inside_an_answer_are_text():
    for text in ('def f(x):\n    return "<think>" in x', 'def f(x):\n    return "[THINK]" + x'):
        assert block(PYTHON, f"```python\n{text}\n```") == f"{text}\n"


def test_the_marks_of_mbpps_own_prompt_are_no_code():
    problem = mbpp(MBPP)
    for text in (f"[BEGIN]\n{FINAL}\n[DONE]", f"{FINAL}\n[DONE]\n\nYou are", f"Sure:\n[BEGIN]\n{FINAL}\n[DONE]"):
        assert block(problem, text).strip() == FINAL
        assert block(PYTHON, text).strip() == FINAL
    assert program(problem, f"{FINAL}\n[DONE]\nmore", "completion").strip() == FINAL


def test_a_whole_python_function_follows_the_prompt_and_a_body_continues_it():
    code = program(PYTHON, "```python\ndef f(x):\n    return math.ceil(x)\n```", "chat")
    assert code == f"{PYTHON.head}\ndef f(x):\n    return math.ceil(x)\n"
    assert program(PYTHON, "```python\n    return 2\n```", "chat") == f"{PYTHON.head}    return 2\n"


def test_cpp_without_marks_stands_among_sentences():
    code = "#include <map>\nvector<int> twice(vector<int> n) {\n  return n;\n}"
    assert block(CPP_PROBLEM, f"So it is:\n\n{code}\n\nIt takes O(n).") == code
    assert block(CPP_PROBLEM, "    return n;\n}") == "    return n;\n}"


def test_a_whole_function_in_cpp_follows_what_the_prompt_includes():
    answer = "```cpp\nvector<int> twice(vector<int> n) { return n; }\n```"
    assert program(CPP_PROBLEM, answer, "chat").startswith("#include<vector>")


def test_of_an_answer_that_begins_with_its_use_the_solution_is_judged_in_each_language(benchmarks):
    """A model that shows a call first had all of its right solutions judged as wrong."""
    for name in ("HumanEval.jsonl.gz", "humaneval_cpp.jsonl.gz"):
        for problem in read(benchmarks / name):
            solution = problem.head + problem.canonical
            answer = f"Use it so:\n\n```\n{problem.entry}(1);\n```\n\n```{problem.language}\n{solution}\n```\n"
            assert block(problem, answer) == f"{solution}\n", problem.id


def test_of_a_problem_that_asks_for_a_whole_program_the_last_block_counts():
    whole = replace(PYTHON, entry="")
    for text in ("def g():\n    return 1", "n = int(input())\nfor _ in range(n):\n    print(input())"):
        assert block(whole, text) == text
        assert block(whole, f"x = 1 is first.\nThe program:\n\n{text}\n\nIt's quick.").strip() == text
    assert block(whole, "An idea:\n```\nprint(0)\n```\nBetter:\n```\nprint(1)\n```") == "print(1)\n"
