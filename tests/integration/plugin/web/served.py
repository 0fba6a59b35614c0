"""A running `outfox serve` with two frozen rounds, for tests that read them over HTTP."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path

from common.clock import SystemClock
from plugin.settings import Settings
from round_manager.archive.storage import open_archives
from round_manager.database.store import open_store
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import create_token, set_public
from round_manager.services.tasks import create_task
from templates import BUILT_IN, load_pack
from tests.campaign import start_closed
from tests.campaign.closed_rounds import text_of
from tests.integration.plugin.web.serving import Serving, serving


@dataclass(frozen=True)
class Served:
    """A server with two frozen rounds, a token for them, and where they are on disk."""

    web: Serving
    token: str
    path: Path

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Message, bytes]:
        """A request with the token; its status, headers and body."""
        connection = HTTPConnection("127.0.0.1", self.web.port, timeout=30)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers={"Authorization": f"Bearer {self.token}", **named})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def file(self, name: str) -> bytes:
        return (self.path / "sentiment" / "round-1" / name).read_bytes()

    def sent(self) -> int:
        """How many files were asked for."""
        return sum(one.get("event") == "data.file" for one in self.web.events())


@contextmanager
def serving_rounds(home: Path, url: str, texts: Mapping[int, str]) -> Iterator[Served]:
    """A server at that home, where some examples have these texts."""
    settings = Settings(home=str(home), database_url=url, secret="s" * 40)
    archives = Path(settings.archives_location)
    with open_store(url) as store:
        round = start_closed(store, text=lambda number: texts.get(number) or text_of(number))
        round.freeze(open_archives(str(archives)))
        round.next_closed_round().freeze(open_archives(str(archives)))
        services, ada = ServiceContext(store, SystemClock()), Actor("ada")
        token = create_token(services, ada, "sentiment", days=1, reason="a test").secret
        create_task(services, ada, load_pack(BUILT_IN / "nli"))
        set_public(services, ada, "nli", public=True)
    with serving(settings) as web:
        yield Served(web, token, archives)
