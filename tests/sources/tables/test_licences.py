"""The licence that a licence file's words give."""

from scripts.sources.tables.licences import licence_of


def test_each_licence_is_recognized_by_its_own_text(tmp_path):
    texts = {
        "MIT": "Permission is hereby granted, free of charge, to any person obtaining a copy of",
        "BSD-2-Clause": "Redistributions in binary form must reproduce the above copyright notice, this list",
        "BSD-3-Clause": "2. Redistributions in binary form must reproduce the above copyright notice\n3. Neither the"
        " name may be used to endorse or promote products derived from this",
        "GPL-3.0-only": "GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007 ... GNU Lesser General Public License",
        "LGPL-3.0-only": "GNU LESSER GENERAL PUBLIC LICENSE\n Version 3 ... GNU General Public License version 3",
        "NOASSERTION": "All rights reserved",
    }
    for name, words in texts.items():
        (tmp_path / "LICENSE.txt").write_text(words)
        assert licence_of(tmp_path) == name
