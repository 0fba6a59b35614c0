"""What a marketplace may ask: which HITs hold work for a worker, and what became of what they submitted."""

from crowd.inquiries import Inquiry, InquiryAnswer
from round_manager.crowd.outcomes import outcomes_of, waiting_bonuses
from round_manager.services.context import ServiceContext
from round_manager.work.offers import make_offers


def answer_inquiry(context: ServiceContext, marketplace: str, asked: Inquiry) -> InquiryAnswer:
    """Return the answer to a marketplace's inquiry; nothing is changed."""
    now = context.now()
    with context.store.read() as session:
        offers = make_offers(session, marketplace, asked.worker_id, asked.hits, asked.held, now=now)
        if not asked.assignments:
            return InquiryAnswer(offers)
        outcomes = outcomes_of(session, marketplace, asked.worker_id, asked.assignments)
        examples, cents = waiting_bonuses(session, marketplace, asked.worker_id, now=now)
    return InquiryAnswer(offers, outcomes, examples, cents)
