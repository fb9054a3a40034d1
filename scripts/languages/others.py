"""Languages without a grammar: a row each, and all other languages and formats that Pygments knows.

    ROWS["cuda"].extensions           # (".cu", ".cuh")
    FILES["Makefile"]                 # "make"; FILES[".pyw"] is "python", which has a file of its own
    CLAIMS[".m"]                      # ["matlab", "objective-c", ...], of which FILES has the most frequent

Their files can be filtered, split, packed and scored by perplexity. Chats and completion tasks need a grammar, and so a
file of the language's own.
"""

import re

from pygments.lexers import LEXERS

from scripts.common.discovery import constants_in
from scripts.languages import Language

WITHOUT_GRAMMAR = {
    "astro": Language("Astro", (".astro",), "//"),
    "csharp": Language("C#", (".cs",), "//", aliases=("cs",)),
    "dart": Language("Dart", (".dart",), "//"),
    "glsl": Language("GLSL", (".glsl", ".vert", ".frag", ".geom", ".comp", ".vs"), "//"),
    "haskell": Language("Haskell", (".hs",), "--", aliases=("hs",)),
    "javascript": Language("JavaScript", (".js", ".jsx", ".mjs", ".cjs"), "//", aliases=("js",)),
    "jupyter": Language("Jupyter notebook", (".ipynb",), "#", aliases=("notebook",)),
    "julia": Language("Julia", (".jl",), "#", aliases=("jl",)),
    "kotlin": Language("Kotlin", (".kt", ".kts"), "//", aliases=("kt",)),
    "lua": Language("Lua", (".lua",), "--"),
    "perl": Language("Perl", (".pl", ".pm"), "#", aliases=("pl",)),
    "php": Language("PHP", (".php",), "//"),
    "r": Language("R", (".r", ".R"), "#"),
    "ruby": Language("Ruby", (".rb",), "#", aliases=("rb",)),
    "scala": Language("Scala", (".scala", ".sc"), "//"),
    "shell": Language("Bash", (".sh", ".bash"), "#", aliases=("sh",)),
    "sql": Language("SQL", (".sql",), "--"),
    "svelte": Language("Svelte", (".svelte",), "//"),
    "swift": Language("Swift", (".swift",), "//"),
    "typescript": Language("TypeScript", (".ts", ".tsx", ".mts", ".cts"), "//", aliases=("ts",)),
}


# where the files of several languages end alike
PREFERRED = {".S": "GAS", ".asm": "NASM", ".bas": "VB.net", ".fs": "F#", ".gd": "GDScript", ".m": "Objective-C",
             ".mm": "Objective-C++", ".s": "GAS", ".t": "Perl", ".v": "verilog", ".xsl": "XSLT"}  # fmt: skip
# mostly no code of the language that ends so: go.mod, exports.def, settings of ProGuard and qmake, RDF, what TeX and R
# write, environment variables, pictures, scenes, notebooks and bibliographies as text, compiled files, templates
NONE = (
    ".mod .def .pro .ttl .aux .toc .Rhistory .Renviron .eps .ps .bib .usd .usda .nb .nbp .cdf .mo .bc .tlb .max .pack"
)
PREFERRED |= dict.fromkeys([*NONE.split(), ".load", ".run", ".ans", ".inf", ".snbt", ".prm", ".resource", ".tmpl"], "")
# modules of Pygments for data, settings, keys and records of terminals, and what there is code all the same
NO_CODE = {"asc", "configs", "console", "data", "diff", "dns", "email", "gcodelexer", "installers", "json5", "ldap",
           "rdf", "sgf", "special", "srcinfo", "textfmts", "xorg"}  # fmt: skip
CODE = {"Docker", "Kconfig", "NSIS", "Terraform"}
TEMPLATED = re.compile(
    r"\+|mozpreproc|session|traceback|output|\blogs?\b|objdump|rconsole|sqlite3con|explain", re.IGNORECASE
)  # lexers for mixtures of languages, and for what programs print


def known_already() -> dict[str, str]:
    """Every name and extension of the languages with a file or a row of their own → the language."""
    own = constants_in("scripts.languages", "LANGUAGE") | WITHOUT_GRAMMAR
    known = {}
    for name, language in own.items():
        names = (name, language.title.lower(), *language.aliases, *language.extensions, *language.by_content)
        known |= dict.fromkeys(names, name)
    return known


def others() -> tuple[dict[str, Language], dict[str, str], dict[str, list[str]]]:
    """The further languages by name; of each extension and file name the language, and all languages that have it."""
    known, rows, files, claims = known_already(), {}, {}, {}
    ordered = sorted(LEXERS.values(), key=lambda lexer: (bool(TEMPLATED.search(lexer[1])), lexer[1].lower()))
    for module, title, aliases, patterns, _ in ordered:
        own = next((known[alias] for alias in (title.lower(), *aliases) if alias in known), None)
        if not aliases or (TEMPLATED.search(title) and not own):
            continue
        name = own or aliases[0].lower()
        new = []
        for pattern in patterns:
            end = pattern.removeprefix("*")
            exact = re.fullmatch(r"\*\.[\w+-]+|[\w.+-]+", pattern)
            if exact:
                claims.setdefault(end, []).append(name)
            if exact and end not in known and PREFERRED.get(end, title) == title and end not in files:
                files[end] = name
                new.append(end)
        if not own:
            no_code = module.rpartition(".")[2] in NO_CODE or title in ("XML", "TAP")
            rows[name] = Language(title, tuple(new), "", data=no_code and title not in CODE)
    return rows, files, claims


OF_PYGMENTS, FILES, CLAIMS = others()
ROWS = WITHOUT_GRAMMAR | OF_PYGMENTS
