"""scripts/licences/: the licence that a header or the text of a licence declares, unknown ones told apart from none."""

import pytest

from scripts.licences.recognition import OTHER, header_licence, licence_of_file

CODE = b"\n\ndef add(a, b):\n    return a + b\n"
APACHE = b"""/*
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 */
"""
ASF = b"""# Licensed to the Apache Software Foundation (ASF) under one
# or more contributor license agreements.  See the NOTICE file
# distributed with this work for additional information
# regarding copyright ownership.  The ASF licenses this file
# to you under the Apache License, Version 2.0
"""
GPL = b"""# This program is free software; you can redistribute it and/or modify
# it under the terms of the GNU General Public License as published by
# the Free Software Foundation; either version 2 of the License, or
# (at your option) any later version.
"""
SSPL = b"""/**
 *    This program is free software: you can redistribute it and/or modify
 *    it under the terms of the Server Side Public License, version 1,
 *    as published by MongoDB, Inc.
 */
"""
TRIPLE = b"""/* ***** BEGIN LICENSE BLOCK *****
 * Version: MPL 1.1/GPL 2.0/LGPL 2.1
 *
 * Alternatively, the contents of this file may be used under the terms of
 * either the GNU General Public License Version 2 or later (the "GPL"), or
 * the GNU Lesser General Public License Version 2.1 or later (the "LGPL").
 */
"""
BSD = b"""// Redistribution and use in source and binary forms, with or without
// modification, are permitted provided that the following conditions are met:
//
// Redistributions in binary form must reproduce the above copyright notice.
"""


@pytest.mark.parametrize(
    ("header", "licence"),
    [
        (b"// SPDX-License-Identifier: MIT\n", "MIT"),
        (b"/* SPDX-License-Identifier: GPL-2.0-only WITH GCC-note */\n", "GPL-2.0-only WITH GCC-note"),
        (b"# SPDX-License-Identifier:  (MIT  OR Apache-2.0)\r\n", "(MIT OR Apache-2.0)"),
        (b"# SPDX-License-Identifier: MIT\n# SPDX-License-Identifier: 0BSD OR ISC\n", "MIT AND (0BSD OR ISC)"),
        (b"// SPDX-License-Identifier: MIT/Apache-2.0\n", "MIT OR Apache-2.0"),
        (b"// SPDX-License-Identifier: MIT //\n", "MIT"),
        (b"<!-- SPDX-License-Identifier: BSL-1.0 -->\n<a/>\n", "BSL-1.0"),
        (b"# SPDX-License-Identifier: `rm -rf /`; MIT AND\n", OTHER),
        (b"# SPDX-License-Identifier: `rm -rf /`; MIT AND\n" + APACHE, "Apache-2.0"),
        (APACHE, "Apache-2.0"),
        (ASF, "Apache-2.0"),
        (GPL, "GPL-2.0-or-later"),
        (SSPL, OTHER),
        (TRIPLE, "MPL-1.1 OR GPL-2.0-or-later OR LGPL-2.1-or-later"),
        (BSD, "BSD-2-Clause"),
        (b"// under the GNU Lesser General Public License, version 2.1 only\n", "LGPL-2.1-only"),
        (b"// the GNU Affero General Public License v3\n", "AGPL-3.0-only"),
        (b"// Use of this source code is governed by a BSD-style\n// license\n", "BSD-3-Clause"),
        (b"# Permission is hereby granted, free of charge, to any\n# person obtaining a copy of\n", "MIT"),
        (b"/* This Source Code Form is subject to the terms of the\n * Mozilla Public License, v. 2.0. */", "MPL-2.0"),
        (b"// License: GPLv3\n", "GPL-3.0-only"),
        (b"-- License: GPL v3+\n", "GPL-3.0-or-later"),
        (b"; licensed under the LGPL\n", "LGPL-2.0-or-later"),
        (b"// Licensed under the EUPL, Version 1.2\n", OTHER),
        (b"% This software is governed by the CeCILL-C license under French law\n", OTHER),
        (b"(* Licensed under BUSL-1.1 *)\n", OTHER),
        (b"// governed by the Business Source License\n// included in the file LICENSE\n", OTHER),
        (b"/* you may not use this file except in compliance with the Elastic License 2.0. */\n", OTHER),
        (
            b"/* Licensed under your choice of the Redis Source Available License 2.0\n"
            b" * (RSALv2) or the Server Side Public License v1 (SSPLv1).\n */\n",
            OTHER,
        ),
        (b"<!--\nThis work is licensed under CC BY-NC 4.0\n-->\n", OTHER),
        (b"// Licensed under Apache 2.0 with Commons Clause\n", OTHER),
        (b"// Unauthorized copying prohibited\n", OTHER),
        (b"// Company Inc. Proprietary and confidential.\n", OTHER),
        (b"# MIT license\n# for non-commercial use only\n", OTHER),
        (b"// Dual licensed under the MIT and GPL licenses.\n", "MIT OR GPL-1.0-or-later"),
        (b"// MIT licensed; see also the Massachusetts Institute\n", "MIT"),
        (b"# Apache-2.0 OR MIT, at your option. This file may not be copied, modified, or distributed\n"
         b"# except according to those terms. License: Apache-2.0 OR MIT\n", "Apache-2.0 OR MIT"),
        (b"// Licensed under MIT, GPLv2\n", "MIT AND GPL-2.0-only"),
        (  # what the first licence lets its user choose is no choice of licences
            b"// License: Apache-2.0. You may choose to offer support for a fee, and charge a fee for it,\n"
            b"// to those who ask for acceptance of such obligations, on your own behalf and at your risk.\n"
            b"// Parts are derived from scalaz. Its license: BSD-3-Clause\n",
            "Apache-2.0 AND BSD-3-Clause",
        ),
        (GPL + b"#\n" + BSD.replace(b"//", b"#"), "GPL-2.0-or-later AND BSD-2-Clause"),
        (b'"""A module.\n\nLicence: BSD\n"""\nimport os\n', "BSD-3-Clause"),
        (b'import os\n__author__ = "A"\n__license__ = "GPLv3"\n', "GPL-3.0-only"),
        (b"package main // import \"a\"\n\n/* Apache License 2.0 */\n", "Apache-2.0"),
        (b"<?php\n/**\n * @license MIT\n */\n", "MIT"),
        (b"#ifndef A_H\n#define A_H\n// Licensed under the ISC license\n", "ISC"),
        # a licence that is not known, or whose version is missing, is never that of the repository
        (b"// Released under the Example Company Internal License, see LICENSE\n", OTHER),
        (b"# Licensed to Example Inc. under our terms\n", OTHER),
        (b"# License: ask Bob\n", OTHER),
        (b"// Licensed under the Elastic License\n", OTHER),
        (
            b"# Permission to use, copy, modify, and distribute this software and its\n# associated documentation for"
            b" any purpose and without fee is hereby granted\n",  # of ElementTree
            "HPND",
        ),
        (b"// Permission to use this file is granted to employees.\n", OTHER),
        # what stands beside a name is no version of it, and no name is taken for one that is like it
        (b"// Dual licensed under the GPL and the Apache License, Version 2.0\n", "GPL-1.0-or-later OR Apache-2.0"),
        (b"# works with GPL tools from version 2 on\n", None),
        (b"// Zero Clause BSD license\n", "0BSD"),
        (b"// BSD 4-Clause License\n", "BSD-4-Clause"),
        (b"// MIT License and Artistic License 2.0\n", OTHER),
        (b"// MIT license. do not redistribute\n", OTHER),
        # no licence, or one that another file holds
        (b"// This source code is licensed under the license found in the LICENSE file in the root\n", None),
        (b"# Copyright 2020, all rights reserved\n", None),
        (b"# Checks the licences of all packages, and works with Python 2 and 3\n", None),
        (b'LICENSE = "GPL-3.0"  # SPDX-License-Identifier: GPL-3.0-only\n', None),
        (b"var text = `\n// Licensed under the GPL, version 2\n`\n", None),
        (b'#define NOTICE "Licensed under the Elastic License 2.0"\n', None),
        (b'MODULE_LICENSE("GPL v2");\n', None),
        (b"permission = 1\n", None),
        (b"", None),
        (b"\xff\xfe license \x00" * 999, None),
        (b"x = 1\n" * 1000 + APACHE, None),
    ],
)  # fmt: skip
def test_a_files_header_gives_its_licence_or_none(header, licence):
    assert header_licence(header + CODE) == licence


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("MIT License\n\nCopyright (c) A\n\nPermission is hereby granted, free of charge, to", "MIT"),
        ("GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n" + "the GNU Affero General Public License. " * 99,
         "GPL-3.0-only"),
        ("MIT License\n" + "a " * 400 + "\nCommons Clause License Condition v1.0", OTHER),
        ("MIT License\n" + "a " * 400 + "\nfor non-commercial purposes", OTHER),
        ("GNU GENERAL PUBLIC LICENSE\nVersion 2, June 1991\n" + "a " * 400 + "only for noncommercial distribution",
         "GPL-2.0-only"),
        ("This program may be used under either of two licenses, the Apache License, version 2.0, or the GNU General"
         " Public License, version 2.0 or later.\n" + "a " * 400 + "only for noncommercial distribution",
         "Apache-2.0 OR GPL-2.0-or-later"),
        ("Business Source License 1.1\n\nChange License: Apache License, Version 2.0", OTHER),
        ("COPYRIGHT AND PERMISSION NOTICE\n\nPermission to use, copy, modify, and distribute this software for any "
         "purpose with or without fee is hereby granted.\nExcept as contained in this notice, the name of a copyright "
         "holder shall not be used in advertising", "curl"),
        ("You may read this on Tuesdays. Licensed to friends.", OTHER),
    ],
)  # fmt: skip
def test_the_title_of_a_licences_text_decides_and_what_it_forbids_is_added(text, licence):
    assert licence_of_file(text) == licence


@pytest.mark.parametrize("part", ["license ", "(", "under the A ", "read a ", "/* ", "GPL 2 ", "\n# licensed under "])
def test_a_hostile_header_takes_no_more_than_its_length_needs(part):
    header_licence((part * 9000).encode())  # a pattern that backtracks without a bound would not come back
    licence_of_file(part * 9000)
