"""A real disk of a few MiB, to fill: a tmpfs that a test mounts. Only root may, so others skip the test."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted tmpfs; its size can change while it is in use."""

    def __init__(self, path: Path):
        self.path = path

    def remount(self, option: str) -> None:
        """Change a mount option: `size=64k`, `ro`, `rw`."""
        subprocess.run(["mount", "-o", f"remount,{option}", self.path], check=True)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[SmallDisk]:
    """A disk of 1 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield SmallDisk(path)
    subprocess.run(["umount", "--lazy", path], check=True)
