"""Source distributions, and wheels as mere files, from the package index that this machine's pip is configured for.

`pip config list` gives what its files and environment configure, so mirrors, `find-links` and certificates work; the
`unearth` library reads the index. No code of a package is run, which `pip download` does.
"""

import ast
import importlib.util
import logging
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from unearth import Link, PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.errors import UnpackError
from unearth.fetchers import PyPIClient

from scripts.common.errors import MachineFault, UserError
from scripts.common.files import sha256_file
from scripts.common.progress import Progress


@contextmanager
def time_limit(seconds: float, message: str) -> Iterator[None]:
    """End the block after `seconds`; only in the main thread, as signals are. Raises UserError: with `message`, when
    the time is over."""

    def expired(*_) -> None:
        raise UserError(message)

    previous = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


RETRY_PAUSES = (0.5, 1)  # seconds before the second and the third attempt
TAR_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
WHEELS = (".whl",)


def run_pip(*arguments: str) -> str:
    """What pip prints."""
    command = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else [shutil.which("pip")]
    if command == [None]:
        raise UserError("pip is not installed; its configuration says where the package index is")
    result = subprocess.run([*command, *arguments], capture_output=True, text=True)
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["failed without a message"])[-1]
        raise UserError(f"pip {' '.join(arguments)}: {reason}")
    return result.stdout


def default_index() -> str:
    """The index that this pip uses where nothing is configured, from its help text."""
    return re.search(r"Python Package Index \(default (\S+?)\)", " ".join(run_pip("download", "--help").split())).group(
        1
    )


def pip_options() -> dict[str, str]:
    """pip's configuration for downloads, e.g. {"index-url": ..., "find-links": ...}; later places win."""
    places = {"global": {}, "download": {}, ":env:": {}}  # as pip orders them
    for line in run_pip("config", "list").splitlines():
        name, _, value = line.partition("=")
        place, _, option = name.partition(".")
        if place in places:
            places[place][option] = ast.literal_eval(value)
    options = {}
    for of_place in places.values():
        options |= of_place
    return options


def index_client(options: dict[str, str], index_urls: list[str]) -> PyPIClient:
    """An HTTP client with pip's certificates, proxy and timeout."""
    for name in ("httpx2", "unearth"):
        logging.getLogger(name).setLevel(logging.WARNING)  # else a line per request, with its whole address
    result = PyPIClient(
        trusted_hosts=options.get("trusted-host", "").split(),
        verify=ssl.create_default_context(cafile=options["cert"]) if "cert" in options else True,
        cert=options.get("client-cert"),
        proxy=options.get("proxy"),
        timeout=float(options.get("timeout", options.get("default-timeout", 15))),
        follow_redirects=True,
    )
    result.auth = MultiDomainBasicAuth(prompting=False, index_urls=index_urls)
    return result


def find_link(
    requirement: str,
    sha256: str,
    options: dict[str, str],
    session: PyPIClient,
    index_urls: list[str],
    suffixes: tuple[str, ...],
) -> Link:
    """The link to the file with one of these suffixes; of several, one for which the index gives this sha256."""
    folders = [
        link if "://" in link else str(Path(link).expanduser()) for link in options.get("find-links", "").split()
    ]
    places = [("find_links", link) for link in folders] + [("index_urls", url) for url in index_urls]
    links, unreachable = [], []
    for kind, place in places:
        try:
            finder = PackageFinder(session, ignore_compatibility=True, **{kind: [place]})
            matches = with_retries(lambda finder=finder: list(finder.find_matches(requirement, allow_prereleases=True)))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            unreachable.append(f"{Link(place).redacted} ({error})")
            logging.warning(f"{requirement}: cannot reach {unreachable[-1]}")
            continue
        found = [match.link for match in matches if match.link.filename.endswith(suffixes)]
        for link in found:
            if (link.hash_option or {}).get("sha256") == [sha256]:
                return link
        links += found
    if links:
        return links[0]
    if unreachable:
        raise MachineFault(f"{requirement}: not found, and these could not be reached: {'; '.join(unreachable)}")
    searched = ", ".join(Link(place).redacted for _, place in places) or "nowhere: pip is configured with `no-index`"
    kind = "source distribution as a tar"
    if suffixes == WHEELS:
        kind = "wheel"
    raise UserError(f"{requirement}: no {kind}; searched: {searched}")


def with_retries(action):
    """What `action` returns; it is called again after a network error."""
    for pause in RETRY_PAUSES:
        try:
            return action()
        except (httpx2.TransportError, UnpackError):
            time.sleep(pause)
    return action()


def download(
    requirement: str, sha256: str, folder: Path, max_bytes: float, max_seconds: float, wheel: bool = False
) -> Path:
    """The source distribution, or the wheel, of `project==version`, in `folder` or where a local index has it. Raises
    UserError: it is not found, cannot be downloaded in time, is larger than `max_bytes`, or its sha256 differs."""
    too_long = f"{requirement}: not downloaded after {max_seconds / 60:g} min"
    options = pip_options()
    index_urls = [options.get("index-url") or default_index(), *options.get("extra-index-url", "").split()]
    if options.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        index_urls = []
    # the timeout of the client is for one read, which a server that sends a byte a second never exceeds
    with time_limit(max_seconds, too_long), index_client(options, index_urls) as session:
        link = find_link(requirement, sha256, options, session, index_urls, WHEELS if wheel else TAR_SUFFIXES)
        progress = Progress(f"download {link.filename}", "bytes")

        def report(link: Link, completed: int, total: int | None) -> None:
            progress.total = total
            progress.add(completed - progress.done)
            if completed > max_bytes:
                raise UserError(f"{link.filename}: larger than the {max_bytes / 10**6:g} MB that a file may have")

        def attempt() -> Path:
            (folder / link.filename).unlink(missing_ok=True)  # unearth takes a part of an earlier attempt for the file
            # without unearth's own check of hashes: the message below names both
            return PackageFinder(session).download(link, folder, {}, report)

        try:
            path = with_retries(attempt)
        except (httpx2.HTTPError, OSError, UnpackError) as error:
            raise MachineFault(f"{requirement}: cannot download {link.redacted}: {error}") from error
    actual = sha256_file(path)
    if actual != sha256:
        raise UserError(f"{requirement}: {link.filename} has sha256 {actual}, pinned is {sha256}")
    return path
