"""Webhooks: Label Studio's hints that something changed, and the secret by which we know them for its own."""

import hashlib
import hmac
from collections.abc import Sequence

from plugin.labelstudio.studio import Hook

HEADER = "X-Outfox-Secret"
ACTIONS = frozenset({"ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED"})
_PURPOSE = "outfox.webhook.1"


def webhook_secret(secrets: Sequence[str], task: str) -> str:
    """What Label Studio sends along with a hint about the task; made from the secret that signs now."""
    return _derived(secrets[-1], task)


def is_webhook_secret(secrets: Sequence[str], task: str, given: str) -> bool:
    """Whether a hint carries the task's secret, made from the secret that signs now or from an older one."""
    wanted = [_derived(secret, task).encode() for secret in secrets]
    return any(hmac.compare_digest(one, given.encode("utf-8", "replace")) for one in wanted)


def webhook(web_url: str, task: str, secrets: Sequence[str]) -> Hook:
    """The webhook of both of a task's projects; it carries no body, for those hold tokens and what people typed."""
    url = f"{web_url.rstrip('/')}/webhooks/label-studio/{task}"
    return Hook(url, {HEADER: webhook_secret(secrets, task)}, ACTIONS)


def _derived(secret: str, task: str) -> str:
    return hmac.new(secret.encode(), f"{_PURPOSE}:{task}".encode(), hashlib.sha256).hexdigest()
