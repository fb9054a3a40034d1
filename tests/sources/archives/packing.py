"""Packing of tar bytes, and a check that they are refused in one line."""

import io
import tarfile

import pytest

from scripts.common.errors import UserError
from scripts.sources.archives.canonical_archive import pack_tar
from scripts.sources.archives.members import Limits

FREE = Limits()
SYM, LINK = tarfile.SYMTYPE, tarfile.LNKTYPE


def pack(data, out, limits=FREE, **more):
    return pack_tar(io.BufferedReader(io.BytesIO(data)), out, limits, **more)


def refused(data, tmp_path, match, limits=FREE, **more):
    """The data is refused in one line, and nothing else than the caller's own files is left."""
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match=match) as caught:
        pack(data, tmp_path / "out.tar.zst", limits, **more)
    assert "\n" not in str(caught.value)
    assert sorted(path for path in tmp_path.iterdir() if path.name != "out.tar.zst") == before
