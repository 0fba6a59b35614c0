"""The manager's steps, in the order in which one pass does them.

What came in is read first, so that all that follows goes by it; money that is owed goes out before new money is bound;
and a round that has ended is frozen, learned from and followed by the next one.
"""

from plugin.manager.intake_steps import Approve, Collect, Follow, Push, Qualify, Read, Sweep
from plugin.manager.money_steps import Pay, Reconcile, TopUp
from plugin.manager.round_steps import Decide, Freeze, Move, Open, Train
from plugin.manager.step import Step
from plugin.manager.supply_steps import Expire, Plan, Post

STEPS: tuple[Step, ...] = (
    Collect(),
    Sweep(),
    Qualify(),
    Read(),
    Decide(),
    Approve(),
    Reconcile(),
    Pay(),
    TopUp(),
    Move(),
    Expire(),
    Plan(),
    Post(),
    Freeze(),
    Train(),
    Open(),
    Follow(),
    Push(),
)
NAMES = tuple(step.name for step in STEPS)
