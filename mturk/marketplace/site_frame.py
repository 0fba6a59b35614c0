"""A requester's page in the marketplace's frame: its address with MTurk's own parameters, and what it may do there."""

from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit, urlunsplit

from common.origins import origin_of
from mturk.profile import MTURK

NOT_ACCEPTED = MTURK.page.preview_assignment
ACCEPTED_PATH = "/s/"
# Everything that a labelling page needs, but not to steer the page around it. Its own origin it must have, for its own
# cookies and requests; it is never ours, for HITs on our own address are refused when they are posted.
SANDBOX = (
    "allow-scripts allow-forms allow-same-origin allow-modals allow-downloads "
    "allow-popups allow-popups-to-escape-sandbox"
)


@dataclass(frozen=True)
class Frame:
    """What an iframe is told; `height` 0 is as high as the window allows."""

    address: str
    title: str
    height: int = 0
    sandbox: str = SANDBOX

    @property
    def origin(self) -> str:
        """Where the page comes from, as a Content-Security-Policy names it."""
        return origin_of(self.address)


def preview_address(page_url: str, hit_id: str) -> str:
    """The page for somebody who has not accepted the HIT."""
    return _with(page_url, {"assignmentId": NOT_ACCEPTED, "hitId": hit_id})


def work_address(page_url: str, hit_id: str, assignment_id: str, worker_id: str, submit_url: str) -> str:
    """The page for the worker who has it."""
    told = {"assignmentId": assignment_id, "hitId": hit_id, "workerId": worker_id, "turkSubmitTo": submit_url}
    return _with(page_url, told)


def submit_to(public_url: str, secret: str) -> str:
    """What pages are told as turkSubmitTo: what they post below it is the work of this one acceptance."""
    return f"{public_url}{ACCEPTED_PATH}{secret}"


def _with(url: str, told: dict[str, str]) -> str:
    # Joined as text: taking the query apart and together again would change what the requester wrote in it.
    parts = urlsplit(url)
    query = "&".join(part for part in (parts.query, urlencode(told)) if part)
    return urlunsplit(parts._replace(query=query, path=parts.path or "/"))
