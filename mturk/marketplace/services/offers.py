"""Offers: what the requesters of some groups say about them, for one worker.

The marketplace's database says which HITs could be accepted; only a requester knows whether they hold work for this
worker. What is asked is read in one transaction, and the requesters are asked after it: no transaction waits for them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from crowd.inquiries import MOST_HITS, ExampleOutcome, HitOffer, Inquiry, InquiryAnswer
from mturk.marketplace import worker_actions
from mturk.marketplace.inquiries import Inquirer, WebApp
from mturk.marketplace.tables.people import AccessKey, RequesterApp, Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Hit
from mturk.marketplace.worker_actions import HitGroup

TOO_MANY_HITS = "too_many_hits"
# One inquiry names this many groups; later ones are offered unasked.
MOST_GROUPS = MOST_HITS // (2 * worker_actions.SOME_HITS)
# Why a group is not offered at all; every other code is shown.
HIDDEN = frozenset({"nothing_to_do", "hit_unavailable", "worker_blocked", "not_in_group"})


@dataclass(frozen=True)
class Question:
    """What one requester is asked: about some HITs of each group, beside what the worker holds."""

    app: WebApp
    inquiry: Inquiry
    hits: Mapping[str, tuple[str, ...]]
    # The worker's assignments by HIT.
    held: Mapping[str, str]


@dataclass(frozen=True)
class Offers:
    """What requesters said: by group for the worker's list, and the HITs that the worker must not get."""

    groups: Mapping[str, HitOffer] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()

    def applied_to(self, group: HitGroup) -> HitGroup:
        """Return the group with what its requester said."""
        offer = self.groups.get(group.group_id)
        if offer is None:
            return group
        refusal = "" if offer.is_available else offer.code or "nothing_to_do"
        return replace(group, bonus_cents=offer.bonus_cents, refusal=refusal, finish=offer.finish)


@dataclass(frozen=True)
class Outcomes:
    """What became of examples, by assignment, and what undecided ones may still earn together."""

    examples: Mapping[str, tuple[ExampleOutcome, ...]] = field(default_factory=dict)
    waiting_examples: int = 0
    waiting_cents: int = 0
    # False if a requester who could be asked did not answer.
    is_complete: bool = True


def ask_about(session: Session, worker: Worker, groups: Sequence[HitGroup], now: datetime) -> list[Question]:
    """Return the questions to the requesters of these groups, as far as they answer any."""
    apps = web_apps(session, {group.requester_id for group in groups})
    if not apps:
        return []
    wanted = held_hits(worker.id, now).add_columns(Hit.requester_id, Assignment.id)
    held = session.execute(wanted).all()
    questions = []
    for requester, app in apps.items():
        own = [group for group in groups if group.requester_id == requester][:MOST_GROUPS]
        hits = {group.group_id: tuple(worker_actions.next_hits(session, worker, group.group_id, now)) for group in own}
        mine = {hit_id: assignment_id for hit_id, owner, assignment_id in held if owner == requester}
        asked = tuple(hit_id for ids in hits.values() for hit_id in ids)
        questions.append(Question(app, Inquiry(worker.id, asked, tuple(mine)), hits, mine))
    return questions


def offers_of(inquirer: Inquirer, questions: Sequence[Question], now: datetime, *, fresh: bool = False) -> Offers:
    """Ask the requesters; groups of which nothing is known are left out."""
    groups: dict[str, HitOffer] = {}
    refused: set[str] = set()
    for question in questions:
        answer = inquirer.ask(question.app, question.inquiry, now, fresh=fresh)
        for group_id, hit_ids in question.hits.items() if answer else ():
            offers = [answer.offers.get(hit_id) for hit_id in hit_ids] if answer else []
            refused |= {hit_id for hit_id, one in zip(hit_ids, offers, strict=True) if one and not one.is_available}
            known = [one for one in offers if one is not None]
            if known and len(known) == len(offers):
                best = next((one for one in known if one.is_available), known[0])
                finish = tuple(question.held[hit_id] for hit_id in best.finish if hit_id in question.held)
                groups[group_id] = replace(best, finish=finish)
    return Offers(groups, frozenset(refused))


def outcomes_of(
    inquirer: Inquirer, apps: Mapping[str, WebApp], worker_id: str, work: Mapping[str, Collection[str]], now: datetime
) -> Outcomes:
    """Ask what became of a worker's assignments; `work` has their ids by requester."""
    found: dict[str, tuple[ExampleOutcome, ...]] = {}
    answers: list[InquiryAnswer | None] = []
    for requester, assignments in work.items():
        if requester in apps and assignments:
            answer = inquirer.ask(apps[requester], Inquiry(worker_id, assignments=tuple(assignments)), now)
            answers.append(answer)
            found |= answer.outcomes if answer else {}
    known = [one for one in answers if one is not None]
    return Outcomes(
        found,
        sum(one.waiting_examples for one in known),
        sum(one.waiting_cents for one in known),
        is_complete=len(known) == len(answers),
    )


def held_hits(worker_id: str, now: datetime) -> Select[str]:
    """Return the query for the ids of the HITs that a worker holds."""
    held = select(Hit.id).join(Assignment, Assignment.hit_id == Hit.id).order_by(Assignment.deadline, Assignment.number)
    return held.where(
        Assignment.worker_id == worker_id, Assignment.status == AssignmentStatus.ACCEPTED, Assignment.deadline > now
    )


def web_apps(session: Session, requesters: Collection[str]) -> dict[str, WebApp]:
    """Return the web apps of those requesters who have one."""
    wanted = (
        select(RequesterApp.requester_id, RequesterApp.url, AccessKey.secret)
        .join(AccessKey, AccessKey.requester_id == RequesterApp.requester_id)
        .where(RequesterApp.requester_id.in_(requesters))
        .order_by(AccessKey.created_at.desc(), AccessKey.id)
    )
    found: dict[str, WebApp] = {}
    for requester, url, secret in session.execute(wanted):
        before = found[requester].secrets if requester in found else ()
        found[requester] = WebApp(requester, url, (*before, secret))
    return found
