"""The status of Label Studio as people read it."""

from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.output import table
from plugin.labelstudio.status import ProjectStatus, Status
from round_manager.labelstudio.crowd import CrowdCounts


def status_text(found: Status) -> RenderableType:
    """Everything that `outfox labelstudio status` shows."""
    head = f"{found.url} answers to {found.user}" if found.user else str(found.error)
    parts: list[RenderableType] = [head]
    parts += [f"{name} is not connected; `outfox labelstudio connect {name}` does it" for name in found.unconnected]
    parts += [
        f"{name} has no open round, so what people write waits; `outfox round open {name}` opens one"
        for name in found.without_round
    ]
    for one in found.projects:
        parts += ["", table(("", f"{one.task}, to {one.kind}"), _rows(one))]
    return Group(*parts)


def _rows(one: ProjectStatus) -> list[tuple[str, str]]:
    rows = [
        ("project", f"{one.project}, {one.title}"),
        ("ML backend", one.backend),
        ("webhook", one.webhook),
        ("tasks", f"{one.counts.sent:,} there, {one.counts.unsent:,} to send"),
        ("read until", f"{one.read_until or 'nothing yet'}; {_unread(one.unread)}"),
        ("last sync", str(one.synced_at or "never")),
        ("became", ", ".join(_became(one))),
    ]
    rows += _crowd_rows(one.crowd)
    if one.last_error:
        since, _, text = one.last_error.partition(" ")
        rows.append(("error", f"since {since}: {text}"))
    return rows + [
        (f"annotation {bad.annotation}", f"{bad.changed_at:%Y-%m-%d %H:%M}: {bad.text}") for bad in one.problems
    ]


def _became(one: ProjectStatus) -> list[str]:
    counts = one.counts
    return [count(counts.examples, "example"), count(counts.votes, "vote"), count(counts.problems, "problem")]


def _crowd_rows(crowd: CrowdCounts) -> list[tuple[str, str]]:
    rows = [("crowd work", f"{crowd.shown:,} shown, {crowd.waiting:,} to send")]
    if crowd.failure and crowd.next_try:
        rows.append(("", f"tried again at {crowd.next_try:%Y-%m-%d %H:%M}: {crowd.failure}"))
    if crowd.held:
        held = count(crowd.held, "vote is", "votes are")
        rows.append(("", f"{held} shown once nobody here can be asked about the example any more"))
    if crowd.refused:
        rows.append(("", f"{count(crowd.refused, 'is', 'are')} refused and tried again each hour: {crowd.refusal}"))
    return rows


def _unread(tasks: int | None) -> str:
    return "unread: unknown" if tasks is None else f"{count(tasks, 'task')} changed since"
