"""Serving a page of ours on this machine only, for one person to look at."""

import socket
import threading
import webbrowser
from random import SystemRandom

import click
from flask import Flask
from werkzeug.serving import make_server

from plugin.errors import PluginError

HOST = "127.0.0.1"
# Below what systems give to outgoing connections (from 32768, from 49152): a server that comes back to a port of
# theirs may find it taken by somebody's request, even by the one that asks whether it is back.
LASTING_PORTS = range(20_000, 32_768)
# Of its own: a seed set by somebody else must not make two processes choose the same ports.
_DICE = SystemRandom()


def serve_locally(app: Flask, port: int, *, open_browser: bool) -> None:
    """Serves until Ctrl-C, on loopback; says where."""
    try:
        # Ours: werkzeug prints lines of its own where the port is taken, and exits.
        listening = socket.create_server((HOST, port))
    except OSError as error:
        raise PluginError(f"port {port} is taken; choose another with --port, or 0 for a free one") from error
    with listening:
        server = make_server(HOST, port, app, threaded=True, fd=listening.fileno())
    address = f"http://{HOST}:{server.port}/"
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
    """A port that nobody has just now, and that no outgoing connection is given by the system later on."""
    first = _DICE.randrange(len(LASTING_PORTS))
    for place in range(len(LASTING_PORTS)):
        port = LASTING_PORTS[first + place - len(LASTING_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise PluginError(f"every port from {LASTING_PORTS[0]} to {LASTING_PORTS[-1]} is taken; end a server or two")
