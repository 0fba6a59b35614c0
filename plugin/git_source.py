"""Packs in git repositories: one commit, fetched with the git command and turned into a zip.

The repository is not trusted. It is cloned bare, so that nothing of it is checked out: no hooks, filters or submodules
run. Only https and ssh are allowed, and http on this machine; the user's own git configuration is not read.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from plugin.errors import PluginError

SCHEMES = ("https", "ssh")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# The short form of ssh addresses, as in git@example.com:team/packs.git.
_SCP = re.compile(r"([A-Za-z0-9][\w.-]*)@([A-Za-z0-9][\w.-]*):([\w~][\w./~-]*)")
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_UNSAFE = re.compile(r"[\x00-\x20\x7f]")
MAX_BYTES, MAX_SECONDS, POLL_SECONDS = 200_000_000, 120.0, 0.1
LAST_CHARS = 300


class GitRefused(PluginError):
    """The address or the branch of a repository is not allowed."""


class GitFailed(PluginError):
    """Git is missing, or could not fetch a repository."""

    retry = True


def is_git_url(source: str) -> bool:
    """Return whether a source is meant as the address of a repository."""
    return "://" in source or "::" in source or _SCP.fullmatch(source) is not None


def fetch_zip(source: str, folder: Path, *, ref: str = "") -> Path:
    """Fetch a branch or tag of a repository, and return a zip of its files in the folder."""
    url, scheme = _checked(source)
    if ref and (not _REF.fullmatch(ref) or ".." in ref):
        raise GitRefused(f"`{ref[:60]}` is not the name of a branch or tag")
    git = shutil.which("git")
    if git is None:
        raise GitFailed("git is not installed")
    clone, packed = folder / "clone.git", folder / "files.zip"
    environment = _environment(scheme)
    safe = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "http.followRedirects=false",
            "-c", "credential.helper=", "-c", "protocol.allow=never", "-c", f"protocol.{scheme}.allow=always",
            "-c", "core.attributesFile=/dev/null", "-c", "transfer.fsckObjects=true")  # fmt: skip
    branch = ("--branch", ref) if ref else ()
    cloning = ("clone", "--quiet", "--bare", "--depth=1", "--single-branch", "--no-tags", "--template=", *branch)
    _run([git, *safe, *cloning, "--", url, str(clone)], environment, folder)
    archiving = ("archive", "--format=zip", f"--output={packed}", "HEAD")
    _run([git, *safe, f"--git-dir={clone}", *archiving], environment, folder)
    return packed


def _checked(source: str) -> tuple[str, str]:
    short = _SCP.fullmatch(source)
    text = f"ssh://{short[1]}@{short[2]}/{short[3]}" if short else source
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError as error:
        raise GitRefused("the address of the repository is invalid") from error
    allowed = (*SCHEMES, "http") if host in LOOPBACK else SCHEMES
    if parts.scheme not in allowed:
        raise GitRefused(f"`{parts.scheme or source[:40]}` addresses are not allowed; use https or ssh")
    if _UNSAFE.search(text) or not host or host.startswith("-") or (parts.username or "").startswith("-"):
        raise GitRefused("the address of the repository is invalid")
    return urlunsplit(SplitResult(parts.scheme, parts.netloc, parts.path, parts.query, "")), parts.scheme


def _environment(scheme: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "GIT_ALLOW_PROTOCOL": scheme,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oPermitLocalCommand=no",
        "LC_ALL": "C",
    }


def _run(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
    """Run git; end it if it takes too long or writes too much."""
    log = folder / "git.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
    until = time.monotonic() + MAX_SECONDS
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(POLL_SECONDS)
                break
            if time.monotonic() > until:
                raise GitFailed(f"git took more than {MAX_SECONDS:.0f} seconds")
            if _size(folder) > MAX_BYTES:
                raise GitRefused(f"the repository is larger than {MAX_BYTES // 1_000_000} MB")
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        said = log.read_text(encoding="utf-8", errors="replace").strip()[-LAST_CHARS:]
        raise GitFailed(f"git could not fetch the repository: {said}")


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
    return total
