"""The licence that the header of a file declares: what its comments say before its code begins.

header_licence(b"// SPDX-License-Identifier: MIT\n")        # "MIT"
header_licence(b'LICENSE = "GPL-3.0"\n')                    # None: a string is no header
header_licence(b"# Licensed to Example Inc.\n")             # "NOASSERTION": a licence that is not known
"""

import re

import re2

from scripts.licences.recognition import licence_in

HEAD = 4096  # bytes; a header with the whole text of BSD or MIT has about 1,500
OPTIONS = re2.Options()
OPTIONS.encoding = re2.Options.Encoding.LATIN1  # each byte is a character, in UTF-8 or not
# without one of these no header is looked at
HINT = re2.compile(
    rb"(?i)licen[sc]|copying|permission|redistribut|public domain|confidential|proprietary|unauthori[sz]ed|prohibited"
    rb"|trade secret|internal use|commercial|same terms|\b(?:a|l)?gpl|\bsspl|\brsal|\bmpl\b|\beupl|\bcecill",
    OPTIONS,
)
# what belongs to a licence, too, where there is one
PART = re2.compile(HINT.pattern + rb"|altered source|endorse|alternatively", OPTIONS)
BLANK = re.compile(rb"\n[\s*=-]*\n")
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


def header_of(text: str) -> str:
    """The comments before a text's code, without their marks; of any language, as marks that begin a line tell them."""
    found, at = [], 0
    while at < len(text):
        end = text.find("\n", at)
        if end < 0:
            end = len(text)
        opening = OPENING.match(text, at, end)
        if opening:
            mark = opening[1].lstrip("rRuU")
            closing = text.find(CLOSING[mark[:2]], opening.end())
            if closing < 0:
                closing = len(text)
            found.append(MARKS.sub("", text[opening.end() : closing]))
            end = text.find("\n", closing)
            if end < 0:
                end = len(text)
        elif comment := LINE.match(text, at, end):
            found.append(comment[2].rstrip("\r"))
        elif licence := DECLARED.match(text, at, end):
            found.append(f"\nLicense: {licence[1]}\n")
        elif not PREAMBLE.match(text, at, end):
            break
        else:
            found.append("")
        at = end + 1
    return "\n".join(found)


def header_licence(raw: bytes) -> str | None:
    """The SPDX expression of the licence in the header of a file, as `licence_in` gives it."""
    head = raw[:HEAD]
    if not HINT.search(head):
        return None
    header = header_of(head.decode("utf-8", "replace")).encode()
    if not HINT.search(header):  # the code has it, or a string
        return None
    # what else a header says about its file differs between the files of a repository
    paragraphs = [paragraph for paragraph in BLANK.split(header) if PART.search(paragraph)]
    return licence_in(b"\n\n".join(paragraphs).decode())
