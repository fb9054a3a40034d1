"""The source files of programs in C#: the tests with a stub of the function, and the candidate.

    sources = tests("Problem", "public static long F(string s)", before, body)
    sources = candidate("Problem", "public static long F(string s)", "F", code)

Both name the types of the signature to `channels/Channel.cs`, which passes values by them.
"""

import re


def parsed(signature: str) -> tuple[str, list[str], list[str]]:
    """(type of the result, types of the parameters, their names) of a static method."""
    signature = signature.replace("dynamic", "object")
    result = re.search(r"\bstatic\s+(.+?)\s+\w+\s*\(", signature, re.S)[1]
    parts, depth = [""], 0
    for character in signature[signature.index("(") + 1 : signature.rindex(")")]:
        depth += (character in "<[(") - (character in ">])")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    named = [part.split("=")[0].rsplit(None, 1) for part in parts if part.strip()]
    return result, [kind.strip() for kind, _ in named], [name for _, name in named]


def types_of(result: str, types: list[str]) -> str:
    """The types of a signature as arguments that the channel wants."""
    listed = ", ".join(f"typeof({kind})" for kind in types)
    return f"typeof({result}), new System.Type[] {{ {listed} }}"


def main(call: str) -> str:
    return f"class StagecraftMain {{ static int Main() {{ return Stagecraft.Channel.{call}; }} }}\n"


def candidate(class_name: str, signature: str, entry: str, code: str) -> dict[str, str]:
    """The candidate's program, which calls the function with the types of the signature, as the tests would."""
    result, types, _ = parsed(signature)
    arguments = ", ".join(f"({kind}) arguments[{index}]" for index, kind in enumerate(types))
    call = f"{class_name}.{entry}({arguments})"
    body = f"{{ {call}; return null; }}" if result == "void" else f"{{ {result} result = {call}; return result; }}"
    return {"candidate.cs": f"{code}\n{main(f'Serve({types_of(result, types)}, arguments => {body})')}"}


def tests(class_name: str, signature: str, before: str, body: str) -> dict[str, str]:
    """The tests' program.

    Args:
        class_name: the class that holds their Main.
        before: the source before the function.
        body: the source behind it.
    """
    result, types, names = parsed(signature)
    returning = "" if result == "void" else f"return ({result}) "
    # as an array, or a single array would be taken for the list of arguments
    arguments = f"new object[] {{ {', '.join(names)} }}"
    stub = f"{signature} {{ {returning}Stagecraft.Channel.Call({types_of(result, types)}, {arguments}); }}\n"
    return {"tests.cs": f"{before}{stub}{body}\n{main(f'Tests(typeof({class_name}))')}"}
