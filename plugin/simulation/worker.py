"""A simulated worker: looks for work, does one HIT after the other, as their skill, honesty and care have it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from plugin.simulation.errors import SiteTrouble
from plugin.simulation.hit_page import HitPage, Json, chosen, written
from plugin.simulation.line import Line
from plugin.simulation.market_visit import MarketVisit, Offer, Taken
from plugin.simulation.notebook import Notebook
from plugin.simulation.people import Person
from plugin.simulation.writing import write
from templates import TaskSpec

# What most people need; nobody really works so long here.
SECONDS_TO_READ = 30.0
SECONDS_A_TRY = 60.0
SECONDS_A_JUDGEMENT = 20.0
SECONDS_A_QUESTION = 30.0
# Whoever was told that there is nothing for them leaves such HITs to others for so many visits.
VISITS_TO_REST = 4
# Titles of HITs to check begin so.
CHECK = "Check"


@dataclass
class Done:
    """What one visit came to."""

    kind: str = ""
    tries: int = 0
    fooled: int = 0
    gave_back: bool = False


class SimulatedWorker:
    """One person of the simulated crowd, at their own browser."""

    def __init__(self, person: Person, spec: TaskSpec, line: Line, market_url: str, notebook: Notebook) -> None:
        self.person = person
        self._spec = spec
        self._line = line
        self._visit = MarketVisit(line, market_url)
        self._notebook = notebook
        self._left: dict[str, int] = {}
        self._taken_of = ""
        # An earlier run, or an answer that never came, may have left work in their hands.
        self._may_hold_some = True

    def sign_in(self, link: str) -> None:
        """Comes in by an invitation."""
        self._visit.sign_in(link)

    def work(self) -> Done:
        """Finishes what is in their hands, or takes one HIT and does it; nothing where nothing is offered."""
        if self._may_hold_some:
            held = self._visit.unfinished()
            if held:
                return self._do(held)
        self._may_hold_some = True
        taken = self.take()
        done = self._do(taken) if taken else Done()
        # Accepted twice, where the first answer was lost: the other one is in their queue.
        self._may_hold_some = self._line.forget_trouble()
        return done

    def take(self) -> Taken | None:
        """One HIT of those that are offered, of the kind that this person likes best."""
        offers = [one for one in self._visit.offers() if not self._rests(one)]
        if not offers:
            return None
        offer = min(offers, key=lambda one: one.title.startswith(CHECK) is not self.person.likes_checking)
        self._taken_of = offer.title
        return self._visit.take(offer)

    def _rests(self, offer: Offer) -> bool:
        """Whether they were told lately that there is nothing of this kind for them."""
        self._left[offer.title] = self._left.get(offer.title, 0) - 1
        return self._left[offer.title] > 0

    def _do(self, taken: Taken) -> Done:
        try:
            page = HitPage(self._line, taken.frame)
            done = self._finished(page)
        except SiteTrouble as trouble:
            if trouble.retry:
                raise
            # Nothing for this worker, or the round is over: somebody else may have it.
            self._visit.give_back(taken)
            self._left[self._taken_of] = VISITS_TO_REST
            return Done(gave_back=True)
        self._notebook.note_work(taken.assignment, page.seconds)
        return done

    def _finished(self, page: HitPage) -> Done:
        state = page.state()
        work = {"create": self._create, "validate": self._validate}.get(page.kind, self._take_quiz)
        done = work(page, state)
        page.tell_time()
        page.finish()
        return done

    def _create(self, page: HitPage, state: Json) -> Done:
        done = Done("create")
        self._spend(page, SECONDS_TO_READ)
        for item in _open_items(state):
            (prompt,) = item["context"].values()
            number, target = item["item"], item["target"]["name"]
            tries, fooled = self._fool(page, number, prompt, target, state)
            done.tries += tries
            done.fooled += fooled
        return done

    def _fool(self, page: HitPage, number: int, prompt: str, target: str, state: Json) -> tuple[int, bool]:
        """Tries until the model is fooled or patience ends, and hands in the last text; how many tries, and whether."""
        person, (about, text) = self.person, _names(self._spec)
        patience = min(max(person.patience, state["tries_before_skip"], 1), state["tries"])
        for attempt in range(1, patience + 1):
            draft = write(prompt, target, person.rng(prompt, target, attempt), skill=person.skill, honest=person.honest)
            # Written down first: a validator may have it before this worker is heard of again.
            self._notebook.note_text(draft.text, draft.reading)
            result = written(text, about, draft.text)
            self._spend(page, SECONDS_A_TRY)
            fooled = bool(page.ask(number, result)["verdict"]["fooled"])
            if fooled or attempt == patience:
                page.hand_in(number, result)
                return attempt, fooled
        raise AssertionError("a worker makes one try at least")

    def _validate(self, page: HitPage, state: Json) -> Done:
        _, text = _names(self._spec)
        for item in _open_items(state):
            shown = item["task"][text]
            self._spend(page, SECONDS_A_JUDGEMENT)
            page.judge(item["item"], chosen("label", text, self._read(shown)))
        return Done("validate")

    def _spend(self, page: HitPage, seconds: float) -> None:
        page.spend(seconds * self.person.pace)

    def _read(self, text: str) -> str:
        """What this person reads in a sentence: what people do, but for their errors."""
        rng, reading = self.person.rng("reads", text), self._notebook.reading(text)
        return _slip(reading, self._spec.label_names, rng, self.person.error_rate)

    def _take_quiz(self, page: HitPage, state: Json) -> Done:
        questions = state["items"]
        quiz = state["quiz"]
        for attempt in range(1, 3):
            if quiz and (quiz["passed"] or not quiz["attempts_left"]):
                break
            self._spend(page, SECONDS_A_QUESTION * len(questions))
            quiz = page.answer_quiz([self._answer(one, attempt) for one in questions])
        return Done("quiz")

    def _answer(self, question: Mapping[str, object], attempt: int) -> int:
        known = self._spec.quiz.questions if self._spec.quiz else ()
        right = next(one for one in known if one.question == question["question"])
        places = [str(place) for place in range(len(right.choices))]
        rng = self.person.rng("answers", right.question, attempt)
        return int(_slip(str(right.answer), places, rng, self.person.error_rate))


def _slip(right: str, all_of: Sequence[str], rng: Random, error_rate: float) -> str:
    others = [one for one in all_of if one != right]
    return rng.choice(others) if rng.random() < error_rate else right


def _open_items(state: Json) -> list[Json]:
    # Where nothing is missing any more, the round was closed and takes the HIT as it is.
    return [item for item in state["items"] if not item["done"]] if state["missing"] is not None else []


def _names(spec: TaskSpec) -> tuple[str, str]:
    """The names of the context's field and of the field to write in."""
    return spec.with_role("context")[0].name, spec.with_role("input")[0].name
