"""Run git so that nothing runs out of an untrusted repository, nothing prompts, and no process outlives this one.

    repository = empty_repository(Path("work"))
    run_git(repository, "fetch", "--depth=1", "--", "https://example.org/x", "HEAD").returncode

Git never opens an untrusted repository: its configuration may name commands (fsmonitor, hooks, filters, ssh, credential
helpers, a promisor remote's upload-pack and more). All calls work in an empty repository of our own, which fetches
from the untrusted one. That runs `git upload-pack` there, the one command that git makes for untrusted repositories:
it takes hooks from the user's own configuration only, and GIT_NO_LAZY_FETCH keeps it from asking other servers.
"""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.process import end_with_parent
from scripts.experiment.settings.record import without_credentials

MIN_BYTES_PER_SECOND = 1000
LOW_SPEED_SECONDS = 60  # after so long below that rate an HTTP transfer ends
# variables of a hook or of another repository, which would point git elsewhere (git rev-parse --local-env-vars)
REPOSITORY_VARIABLES = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
}
ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # without `ext::`, which runs the command in the location
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.lowSpeedLimit": str(MIN_BYTES_PER_SECOND),
}
# BatchMode: no prompt. The time limits hold before the connection stands and after it falls silent.
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
# Ends the whole process group, helpers for ssh and HTTP included, when this process dies (die_with_parent).
LAUNCHER = ["sh", "-c", 'trap "kill -KILL 0" TERM; "$@" & wait $!', "sh"]


def empty_repository(folder: Path, attributes: str = "") -> Path:
    """Make `folder` an empty bare repository; `attributes` go before those of any tree. Returns `folder`. Raises
    UserError: git is not installed, or cannot write there."""
    (folder / "info").mkdir(parents=True, exist_ok=True)
    (folder / "info" / "attributes").write_text(attributes)
    # the user's own settings, as proxies and credential helpers, and no complaint about a repository of another owner
    home = Path(os.environ.get("HOME", "/"))
    xdg = Path(os.environ.get("XDG_CONFIG_HOME", home / ".config")) / "git/config"
    if "GIT_CONFIG_GLOBAL" in os.environ:
        user_files = [os.environ["GIT_CONFIG_GLOBAL"]]
    else:
        user_files = [xdg, home / ".gitconfig"]
    includes = "".join(f"[include]\n\tpath = {quoted(str(path))}\n" for path in user_files)
    (folder / "user.gitconfig").write_text(f"{includes}[safe]\n\tdirectory = *\n")
    created = run_git(folder, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", str(folder))
    if created.returncode:
        raise UserError(f"git init: {error_line(created.stderr)}")
    return folder


def quoted(value: str) -> str:
    """A value as git's configuration files write it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def git_process(repository: Path, *arguments: str, **options) -> subprocess.Popen:
    """Start git in a repository that `empty_repository` made; `options` are those of Popen. Raises UserError: git is
    not installed."""
    environment = {name: value for name, value in os.environ.items() if name not in REPOSITORY_VARIABLES}
    environment |= ENVIRONMENT | {"GIT_CONFIG_GLOBAL": str(repository / "user.gitconfig")}
    if not {"GIT_SSH", "GIT_SSH_COMMAND"} & environment.keys() and arguments[0] == "fetch":
        configured = run_git(repository, "config", "--get", "core.sshCommand").stdout.strip()
        environment["GIT_SSH_COMMAND"] = configured or SSH
    settings = SETTINGS | {"http.lowSpeedTime": str(LOW_SPEED_SECONDS)}
    flags = []
    for name, value in settings.items():
        flags += ("-c", f"{name}={value}")
    parent = os.getpid()

    def die_with_parent() -> None:
        end_with_parent(signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        return subprocess.Popen(
            [*LAUNCHER, "git", "--no-pager", *flags, f"--git-dir={repository}", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # no terminal on which ssh could prompt, and a process group to end
            preexec_fn=die_with_parent,
            **options,
        )
    except FileNotFoundError as error:
        raise UserError("sh is not installed; git is started through it") from error


def run_git(repository: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run git to its end, or end it with all its children when this is interrupted; the caller checks `returncode`.
    Raises UserError: git is not installed."""
    process = git_process(
        repository, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        stdout, stderr = process.communicate()
    except BaseException:
        end(process)
        raise
    if process.returncode == 127:  # of sh
        raise UserError("git is not installed; it reads the sources of kind git")
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


def end(process: subprocess.Popen) -> None:
    """Kill git and all its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    process.wait()


def error_line(stderr: str) -> str:
    """The line of git's error output that names the error, without credentials in URLs."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["git failed without a message"]
    line = next((line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))), lines[-1])
    return without_credentials(line)
