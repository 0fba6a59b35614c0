"""A local web server for previews, and free ports on this machine."""

import socket
import threading
import webbrowser
from random import SystemRandom

import click
from flask import Flask
from werkzeug.serving import make_server

from plugin.errors import PluginError

HOST = "127.0.0.1"
# Below the range of outgoing connections (from 32768 or 49152): a server that restarts on such a port may find it taken
# by a client's connection, even by the one that asks whether the server is back.
SERVER_PORTS = range(20_000, 32_768)
# Not the shared generator: a common seed must not make two processes choose the same ports.
_RANDOM = SystemRandom()


class PortTaken(PluginError):
    """The port, or every port of the range, is in use."""


def serve_locally(app: Flask, port: int, *, open_browser: bool) -> None:
    """Serve on loopback until Ctrl-C, and print the address."""
    try:
        # Bound here: werkzeug prints its own message and exits if the port is taken.
        listening = socket.create_server((HOST, port))
    except OSError as error:
        raise PortTaken(f"port {port} is in use; choose another, or 0 for a free one") from error
    with listening:
        server = make_server(HOST, port, app, threaded=True, fd=listening.fileno())
    address = f"http://{HOST}:{server.port}/"
    click.echo(f"open {address} (Ctrl-C stops)")
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo("stopped")
    finally:
        server.server_close()


def free_port() -> int:
    """Return a free port outside the range of outgoing connections."""
    first = _RANDOM.randrange(len(SERVER_PORTS))
    for place in range(len(SERVER_PORTS)):
        port = SERVER_PORTS[first + place - len(SERVER_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise PortTaken(f"every port from {SERVER_PORTS[0]} to {SERVER_PORTS[-1]} is in use; stop a server")
