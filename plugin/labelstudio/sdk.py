"""Label Studio's own client, opened for a token, and its errors in our words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from plugin.labelstudio.errors import INSTALL, LabelStudioError

SECONDS_TO_ANSWER = 60.0
LONGEST_REASON = 200


def open_sdk(url: str, token: str, *, seconds: float = SECONDS_TO_ANSWER) -> Any:
    """The client for a legacy or a personal access token; nothing but a personal token is checked yet."""
    if not token:
        cure = "copy one from its page Account & Settings into OUTFOX_LABEL_STUDIO_TOKEN"
        raise LabelStudioError(f"no token for Label Studio; {cure}")
    # Imported here: the SDK is optional and takes a second.
    try:
        from label_studio_sdk import client
    except ImportError as error:
        raise LabelStudioError(f"the Label Studio SDK is not installed; run: {INSTALL}") from error
    make: Any = client.LabelStudio
    with translated(url):
        # No retries inside: a repeated import would make every task twice. Who calls us decides, by `retry`.
        return make(base_url=url, api_key=token, timeout=seconds, max_retries=0)


@contextmanager
def translated(url: str, *, sends_texts: bool = False) -> Iterator[None]:
    """Whatever the client raises inside is a LabelStudioError.

    Label Studio's reasons repeat what it refuses; where that is what people wrote (`sends_texts`), they are left out.
    """
    import httpx
    from label_studio_sdk.core.api_error import ApiError

    try:
        yield
    except httpx.TimeoutException as error:
        text = f"Label Studio at {url} takes too long to answer; look at its log and its load"
        raise LabelStudioError(text, retry=True) from error
    except httpx.HTTPError as error:
        raise LabelStudioError(f"Label Studio at {url} does not answer; is it running?", retry=True) from error
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        text = f"`{url}` or the token for it cannot be used; correct label_studio_url and label_studio_token"
        raise LabelStudioError(text) from error
    except ApiError as error:
        raise _refusal(url, error.status_code or 0, error.body, sends_texts=sends_texts) from error


def _refusal(url: str, status: int, body: Any, *, sends_texts: bool) -> LabelStudioError:
    if status in (401, 403):
        text = "does not accept the token; copy the one of the projects' owner from its page Account & Settings"
    elif 200 <= status < 300:
        text = "answers with something that is not its API; correct label_studio_url"
    else:
        text = _reason(status, body, sends_texts=sends_texts)
    return LabelStudioError(f"Label Studio at {url} {text}", retry=status >= 500 or status == 429, status=status)


def _reason(status: int, body: Any, *, sends_texts: bool) -> str:
    found = body if isinstance(body, dict) else {}
    fields = found.get("validation_errors")
    if sends_texts:
        named = f" ({', '.join(_line(name) for name in fields)})" if isinstance(fields, dict) and fields else ""
        return f"refuses what was sent with status {status}{named}; its own log tells why"
    if isinstance(fields, dict) and fields:
        reasons = "; ".join(f"{name}: {_line(reason)}" for name, reason in fields.items())
        return f"refuses the request: {reasons}"
    return f"answers {status}: {_line(found.get('detail') or 'no reason given')}"


def _line(reason: Any) -> str:
    """One line of a reason, which can be a list, or have links in it."""
    parts = reason if isinstance(reason, list) else [reason]
    text = " ".join(re.sub(r"<[^>]*>", "", " ".join(str(part) for part in parts)).split())
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]} …"
