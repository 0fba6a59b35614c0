"""The status of Label Studio as text and as JSON."""

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType

from common.errors import Hint
from common.text import count
from plugin.cli.output import table
from plugin.hints import command_for
from round_manager.labelstudio.status import LabelStudioStatus, ProjectStatus
from round_manager.labelstudio.upload_queue import CrowdCounts


def status_text(found: LabelStudioStatus) -> RenderableType:
    """Return the status as a page of text."""
    head = f"{found.url} responds as {found.user}" if found.user else str(found.error)
    parts: list[RenderableType] = [head]
    parts += [
        f"{name} is not connected: `{command_for(Hint('connect_label_studio', task=name))}`"
        for name in found.unconnected
    ]
    parts += [
        f"{name} has no open round, so submissions wait: `{command_for(Hint('open_round', task=name))}`"
        for name in found.without_round
    ]
    for one in found.projects:
        parts += ["", table(("", f"{one.task}, to {one.kind}"), _rows(one))]
    return Group(*parts)


def status_data(found: LabelStudioStatus) -> dict[str, Any]:
    """Return the status as JSON-compatible data."""
    data = asdict(found)
    for one, project in zip(data["projects"], found.projects, strict=True):
        one["hint"] = project.hint.as_data() if project.hint else None
    return data


def _rows(one: ProjectStatus) -> list[tuple[str, str]]:
    rows = [
        ("project", f"{one.project}, {one.title}"),
        ("ML backend", one.backend),
        ("webhook", one.webhook),
        ("tasks", f"{one.counts.sent:,} sent, {one.counts.unsent:,} to send"),
        ("read until", f"{one.read_until or 'nothing yet'}; {_unread(one.unread)}"),
        ("last sync", str(one.synced_at or "never")),
        ("became", ", ".join(_became(one))),
    ]
    if one.hint:
        rows.append(("to do", f"`{command_for(one.hint)}`"))
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
        rows.append(("", f"next attempt at {crowd.next_try:%Y-%m-%d %H:%M}: {crowd.failure}"))
    if crowd.held:
        held = count(crowd.held, "vote is", "votes are")
        rows.append(("", f"{held} shown once no validator here can be asked about the example"))
    if crowd.refused:
        rows.append(("", f"{count(crowd.refused, 'is', 'are')} refused and retried every hour: {crowd.refusal}"))
    return rows


def _unread(tasks: int | None) -> str:
    return "unread: unknown" if tasks is None else f"{count(tasks, 'task')} changed since"
