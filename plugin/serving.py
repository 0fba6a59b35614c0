"""Serving a page of ours on this machine only, for one person to look at."""

import socket
import threading
import webbrowser

import click
from flask import Flask
from werkzeug.serving import make_server

from plugin.errors import PluginError

HOST = "127.0.0.1"


def serve_locally(app: Flask, port: int, *, open_browser: bool) -> None:
    """Serves until Ctrl-C, on loopback; says where."""
    try:
        server = make_server(HOST, port, app, threaded=True)
    except (OSError, SystemExit) as error:  # werkzeug exits where the port is taken
        raise PluginError(f"port {port} is taken; choose another with --port, or 0 for a free one") from error
    address = f"http://{HOST}:{server.server_port}/"
    click.echo(f"look at {address} (Ctrl-C ends it)")
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo("ended")
    finally:
        server.server_close()


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
