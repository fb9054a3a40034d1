"""The SPDX name of a repository's licence, from words of its licence file."""

import re
from pathlib import Path

# Words that no other of these licences has, special cases first. The text of a GPL does not say "or later", so the
# narrower "only" is reported.
LICENCES = [
    ("GNU AFFERO GENERAL PUBLIC LICENSE Version 3", "AGPL-3.0-only"),
    ("GNU LESSER GENERAL PUBLIC LICENSE Version 3", "LGPL-3.0-only"),
    ("GNU LESSER GENERAL PUBLIC LICENSE Version 2.1", "LGPL-2.1-only"),
    ("GNU GENERAL PUBLIC LICENSE Version 3", "GPL-3.0-only"),
    ("GNU GENERAL PUBLIC LICENSE Version 2", "GPL-2.0-only"),
    ("Mozilla Public License Version 2.0", "MPL-2.0"),
    ("Mozilla Public License, version 2.0", "MPL-2.0"),
    ("Eclipse Public License - v 2.0", "EPL-2.0"),
    ("Apache License Version 2.0", "Apache-2.0"),
    ("Boost Software License - Version 1.0", "BSL-1.0"),
    ("This is free and unencumbered software released into the public domain", "Unlicense"),
    ("CC0 1.0 Universal", "CC0-1.0"),
    ("Permission to use, copy, modify, and/or distribute this software for any purpose", "ISC"),
    ("Permission to use, copy, modify, and distribute this software for any purpose", "ISC"),
    ("Permission is hereby granted, free of charge, to any person obtaining a copy", "MIT"),
    ("used to endorse or promote products derived from", "BSD-3-Clause"),
    ("Redistributions in binary form must reproduce the above copyright notice", "BSD-2-Clause"),
    ("Altered source versions must be plainly marked as such", "Zlib"),
]


def licence_of(repository: Path) -> str:
    """The SPDX name that the licence file at the top of a repository suggests; NOASSERTION where it suggests none."""
    for path in sorted(repository.iterdir()):
        if re.match(r"(licen[cs]e|copying|unlicense)", path.name, re.IGNORECASE) and path.is_file():
            text = " ".join(path.read_text(encoding="utf-8", errors="replace").split()).lower()
            for words, name in LICENCES:
                if words.lower() in text:
                    return name
    return "NOASSERTION"
