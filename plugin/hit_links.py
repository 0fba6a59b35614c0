"""Links to the pages of HITs: each is signed, so that a HIT cannot be opened by guessing its number."""

from collections.abc import Sequence
from uuid import UUID

from itsdangerous import BadSignature, Signer

from plugin.errors import PluginError
from round_manager.models import Hit

_SALT = "outfox.hit.1"


class HitLinks:
    """Creates and verifies links; the last secret signs, older ones still verify."""

    def __init__(self, pages: str, secrets: Sequence[str]) -> None:
        self._pages = pages
        self._signer = Signer(list(secrets), salt=_SALT)

    def url(self, hit: Hit) -> str:
        """Return the address of a HIT's page; the same one each time."""
        return self.url_of(hit.public_id)

    def url_of(self, public_id: UUID) -> str:
        """Return the address of the page of the HIT with that public id."""
        return f"{self._pages}/{public_id.hex}?key={self._key(public_id)}"

    def check(self, hit: str, key: str) -> UUID:
        """Return the public id of the HIT that a link opens."""
        try:
            return UUID(self._signer.unsign(f"{hit}.{key}").decode())
        except (BadSignature, ValueError) as error:
            raise PluginError("this link is not one of ours, or was changed on the way") from error

    def _key(self, public_id: UUID) -> str:
        return self._signer.get_signature(public_id.hex).decode()
