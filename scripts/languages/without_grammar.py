"""Languages without a grammar, a row each: their files can be filtered, split, packed and scored by perplexity.

Chats and completion tasks need a grammar, and so a file of the language's own.
"""

from scripts.languages import Language

ROWS = {
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
