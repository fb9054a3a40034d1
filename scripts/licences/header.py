"""The header of a file: the comments before its code, in any language, as the marks that begin a line tell them.

header_of('/* Licensed under MIT */\nimport os\n')     # " Licensed under MIT "
"""

import re

# marks that begin a comment line in some language, and the directives of C and C# that begin with one of them
LINE = re.compile(
    r"[ \t]*(?!#[ \t]*(?:if|ifdef|ifndef|elif|else|endif|define|undef|include|import|pragma|error|region|nullable)\b)"
    r"(//+[!/]*|#+[!:|]*|--+\[*|;+|%+|!+|\\\*|REM\b|dnl\b|\.\.(?=\s)|\"(?=[ \t])|'(?=[ \t]))(.*)",
    re.IGNORECASE,
)
OPENING = re.compile(r"[ \t]*(/\*+!?|<!--+|\(\*|\{-|<#|#\||#=|--\[=*\[|=begin\b|=pod\b|[rRuU]{0,2}(?:\"\"\"|\'\'\'))")
CLOSING = {"/*": "*/", "<!": "-->", "(*": "*)", "{-": "-}", "<#": "#>", "#|": "|#", "#=": "=#", "--": "]", "=b": "=end",
           "=p": "=cut", '""': '"""', "''": "'''"}  # fmt: skip
# lines of code that may stand before or within a header
PREAMBLE = re.compile(
    r"\s*$|\s*(?:<[?!%/\w]|#|[\"']use |@charset|__\w+__\s*="
    r"|(?:package|module|import|from|using|namespace|library)\b)"
)
DECLARED = re.compile(r"\s*__licen[sc]e__\s*(?::\s*str\s*)?=\s*[rbu]?[\"']+([^\"'\n]+)")
MARKS = re.compile(r"^[ \t]*(?:\*+(?!/)|#+|//+|\|)?[ \t]?", re.MULTILINE)  # of the lines inside a block comment


def until(text: str, mark: str, start: int) -> int:
    """Where a mark stands next, or the end of the text."""
    place = text.find(mark, start)
    return place if place >= 0 else len(text)


def header_of(text: str) -> str:
    """The comments before a text's code, without their marks; `__license__ = "..."` as a line `License: ...`."""
    found, at = [], 0
    while at < len(text):
        end = until(text, "\n", at)
        opening = OPENING.match(text, at, end)
        if opening:
            closing = until(text, CLOSING[opening[1].lstrip("rRuU")[:2]], opening.end())
            found.append(MARKS.sub("", text[opening.end() : closing]))
            end = until(text, "\n", closing)
        elif comment := LINE.match(text, at, end):
            found.append(comment[2].rstrip("\r"))
        elif licence := DECLARED.match(text, at, end):
            found.append(f"\nLicense: {licence[1]}\n")
        elif PREAMBLE.match(text, at, end):
            found.append("")
        else:
            break
        at = end + 1
    return "\n".join(found)
