"""A git server on loopback: git's own HTTP backend behind a small WSGI application."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

WHO = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main")
ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; return what it prints."""
    command = ["git", *WHO, *arguments]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, check=True, text=True)
    return done.stdout


def commit(folder: Path) -> None:
    """Make the folder a repository with everything in it committed."""
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A pack")


def git_app(root: Path) -> WSGIApplication:
    """Return an application that serves the repositories below a folder."""

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        names = ("REQUEST_METHOD", "QUERY_STRING", "CONTENT_TYPE", "HTTP_CONTENT_ENCODING", "HTTP_GIT_PROTOCOL")
        variables = {name: str(environ.get(name, "")) for name in names} | {
            "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": str(environ["PATH_INFO"]),
            "CONTENT_LENGTH": str(length), "REMOTE_ADDR": "127.0.0.1",
        }  # fmt: skip
        body = environ["wsgi.input"].read(length) if length else b""
        command = ["git", "http-backend"]
        done = subprocess.run(command, input=body, env=ENVIRONMENT | variables, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [
            (name, value.strip()) for name, _, value in (line.partition(":") for line in head.decode().splitlines())
        ]
        status = next((value for name, value in headers if name == "Status"), "200 OK")
        start_response(status, [one for one in headers if one[0] != "Status"])
        return [content]

    return app
