"""What a requester has."""

from mturk.marketplace import money
from mturk.marketplace.operations.call import Call, Members, Operation, amount


def get_account_balance(call: Call, _members: Members) -> Members:
    """What can be spent, and what is set aside for HITs."""
    return {
        "AvailableBalance": amount(money.balance(call.session, money.available(call.requester.id))),
        "OnHoldBalance": amount(money.balance(call.session, money.held(call.requester.id))),
    }


READS: dict[str, Operation] = {"GetAccountBalance": get_account_balance}
WRITES: dict[str, Operation] = {}
