"""Passes: each acceptance of an assignment has its own, and only with it can its work be handed in.

An assignment's id outlives the worker who returns it; a pass does not. Only hashes are stored.
"""

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from mturk.marketplace.ids import hashed
from mturk.marketplace.tables import SubmitPass


def issue(session: Session, assignment_id: str, secret: str) -> None:
    """From now on, whoever has the secret can hand in the work of this acceptance."""
    session.merge(SubmitPass(token_hash=hashed(secret), assignment_id=assignment_id))
    session.flush()


def is_issued(session: Session, secret: str) -> bool:
    """Whether it is good for something."""
    return opens(session, secret) is not None


def opens(session: Session, secret: str) -> str | None:
    """The assignment whose work it hands in; None after a return, or when the time was over."""
    return session.scalar(select(SubmitPass.assignment_id).where(SubmitPass.token_hash == hashed(secret)))


def void(session: Session, assignment_id: str) -> None:
    """Every pass of the acceptance so far is good for nothing."""
    session.execute(delete(SubmitPass).where(SubmitPass.assignment_id == assignment_id))
