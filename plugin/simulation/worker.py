"""Simulated workers: profiles with skill, honesty, care and patience, and how such a worker does HITs."""

import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from plugin.simulation.browser import Browser, SimulationPageError
from plugin.simulation.pages import AcceptedHit, HitPage, Json, MarketplaceSite, Offer, choice_result, text_result
from plugin.simulation.sentences import Draft, SimulationRecord, write
from templates import TaskSpec

# One in six is dishonest, but not the first ones, so that a tiny crowd can work too.
DISHONEST_EACH = 6
FIRST_DISHONEST = 4
NAME = "Simulated worker"
# The time that most people need; the simulation does not wait for it.
SECONDS_TO_READ = 30.0
SECONDS_PER_ATTEMPT = 60.0
SECONDS_PER_JUDGEMENT = 20.0
SECONDS_PER_QUESTION = 30.0
# A worker without work in a group skips that group for this many visits.
VISITS_TO_SKIP = 4
# The first words of the titles of validation HITs and of quizzes.
CHECK, QUIZ = "Check", "Paid quiz"


@dataclass(frozen=True)
class SimulatedProfile:
    """The character of one simulated worker.

    `skill` is how often they think of a hard sentence, `error_rate` how often they misread or answer wrongly,
    `patience` the number of attempts on one sentence, `pace` their time compared with most people's; `title` is their
    name without the number.
    """

    number: int
    seed: str
    skill: float
    error_rate: float
    patience: int
    pace: float
    honest: bool
    likes_checking: bool
    title: str = NAME

    @property
    def name(self) -> str:
        """The name on the marketplace."""
        return f"{self.title} {self.number}"

    def rng(self, *about: object) -> Random:
        """Return a random generator that is the same each time for the same worker and subject."""
        return Random("/".join(map(str, (self.seed, self.number, *about))))  # noqa: S311 - nothing here is secret


def make_profiles(count: int, seed: str) -> list[SimulatedProfile]:
    """Return this many profiles, always the same for a seed."""
    return [_profile(number, seed) for number in range(1, count + 1)]


def _profile(number: int, seed: str) -> SimulatedProfile:
    rng = Random(f"{seed}/person/{number}")  # noqa: S311 - nothing here is secret
    return SimulatedProfile(
        number=number,
        seed=seed,
        skill=rng.uniform(0.15, 0.6),
        error_rate=rng.uniform(0.01, 0.12),
        patience=rng.randint(3, 6),
        pace=rng.uniform(0.7, 1.6),
        honest=number % DISHONEST_EACH != FIRST_DISHONEST,
        likes_checking=number % 2 == 0,
    )


@dataclass
class VisitResult:
    """What a worker did in one visit."""

    kind: str = ""
    attempts: int = 0
    fooled: int = 0


def _want_all(_offer: Offer) -> bool:
    return True


def _hurry(_seconds: float) -> None:
    """Programs need no time."""


class SimulatedWorker:
    """One worker of the simulated crowd, with their own browser.

    `wants` says whether they accept what is offered, and `pause` lets them take their time, given what a person needs.
    """

    def __init__(
        self,
        profile: SimulatedProfile,
        spec: TaskSpec,
        browser: Browser,
        market_url: str,
        record: SimulationRecord,
        *,
        wants: Callable[[Offer], bool] = _want_all,
        pause: Callable[[float], None] = _hurry,
    ) -> None:
        self.profile = profile
        self._spec = spec
        self._browser = browser
        self._site = MarketplaceSite(browser, market_url)
        self._record = record
        self._wants = wants
        self._pause = pause
        self._skips: dict[str, int] = {}
        self._accepted_group = ""
        # An earlier run, or a lost answer, may have left an accepted HIT in the queue.
        self._check_queue = True

    def sign_in(self, link: str) -> None:
        """Sign in with an invitation link."""
        self._site.sign_in(link)

    def work(self) -> VisitResult:
        """Finish an accepted HIT, or accept one and do it; do nothing if none is offered."""
        if self._check_queue:
            unfinished = self._site.unfinished()
            if unfinished:
                return self._do(unfinished)
        self._check_queue = True
        accepted = self.accept()
        done = self._do(accepted) if accepted else VisitResult()
        # If an answer was lost, two HITs were accepted, and the other one is in the queue.
        self._check_queue = self._browser.take_lost_answer()
        return done

    def accept(self) -> AcceptedHit | None:
        """Accept a HIT, of the kind that this worker prefers."""
        offers = [one for one in self._site.offers() if not self._skipped(one)]
        offers.sort(key=lambda one: one.title.startswith(CHECK) is not self.profile.likes_checking)
        offer = next(filter(self._wants, offers), None)
        if offer is None:
            return None
        self._accepted_group = offer.title
        return self._site.accept(offer)

    def _skipped(self, offer: Offer) -> bool:
        """Whether the group recently had nothing for this worker."""
        self._skips[offer.title] = self._skips.get(offer.title, 0) - 1
        return self._skips[offer.title] > 0

    def _do(self, hit: AcceptedHit) -> VisitResult:
        try:
            page = HitPage(self._browser, hit.frame)
            done = self._finished(page)
        except SimulationPageError as error:
            if error.retry:
                raise
            # Nothing for this worker, or the round is over: another worker may have it.
            self._site.return_hit(hit)
            self._skips[self._accepted_group] = VISITS_TO_SKIP
            return VisitResult()
        self._record.note_work(hit.assignment, page.seconds)
        return done

    def _finished(self, page: HitPage) -> VisitResult:
        state = page.state()
        work = {"create": self._create, "validate": self._validate}.get(page.kind, self._take_quiz)
        done = work(page, state)
        page.report_time()
        page.finish()
        return done

    def _create(self, page: HitPage, state: Json) -> VisitResult:
        done = VisitResult("create")
        self._spend(page, SECONDS_TO_READ)
        for item in _open_items(state):
            (prompt,) = item["context"].values()
            number, target = item["item"], item["target"]["name"]
            attempts, fooled = self._fool(page, number, prompt, target, state)
            done.attempts += attempts
            done.fooled += fooled
        return done

    def _fool(self, page: HitPage, number: int, prompt: str, target: str, state: Json) -> tuple[int, bool]:
        """Attempt until a new text fools the model or patience ends, and submit it; return attempts and success."""
        profile, (about, text) = self.profile, _names(self._spec)
        patience = min(max(profile.patience, state["tries_before_skip"], 1), state["tries"])
        asked: set[str] = set()
        for attempt in range(1, patience + 1):
            draft = self._draft(prompt, target, attempt, asked)
            asked.add(draft.text)
            # Recorded first: a validator may get it before this call returns.
            self._record.note_text(draft.text, draft.reading)
            result = text_result(text, about, draft.text)
            self._spend(page, SECONDS_PER_ATTEMPT)
            verdict = page.ask(number, result)["verdict"]
            fooled = bool(verdict["fooled"])
            # A text that repeats a known one earns no bonus.
            if (fooled and not verdict["warning"]) or attempt == patience:
                page.submit(number, result)
                return attempt, fooled
        raise AssertionError("a worker makes at least one attempt")

    def _draft(self, prompt: str, target: str, attempt: int, asked: Container[str]) -> Draft:
        """Return a text that the worker has not asked about yet."""
        for again in itertools.count():
            about = (prompt, target, attempt, again) if again else (prompt, target, attempt)
            draft = write(
                prompt, target, self.profile.rng(*about), skill=self.profile.skill, honest=self.profile.honest
            )
            if draft.text not in asked:
                return draft
        raise AssertionError("there are more sentences than attempts")

    def _validate(self, page: HitPage, state: Json) -> VisitResult:
        _, text = _names(self._spec)
        for item in _open_items(state):
            shown = item["task"][text]
            self._spend(page, SECONDS_PER_JUDGEMENT)
            page.judge(item["item"], choice_result("label", text, self._read(shown)))
        return VisitResult("validate")

    def _spend(self, page: HitPage, seconds: float) -> None:
        page.spend(seconds * self.profile.pace)
        self._pause(seconds * self.profile.pace)

    def _read(self, text: str) -> str:
        """Return what this worker understands by a sentence: what people do, with the worker's error rate."""
        rng, reading = self.profile.rng("reads", text), self._record.reading(text)
        return _slip(reading, self._spec.label_names, rng, self.profile.error_rate)

    def _take_quiz(self, page: HitPage, state: Json) -> VisitResult:
        questions = state["items"]
        quiz = state["quiz"]
        for attempt in range(1, 3):
            if quiz and (quiz["passed"] or not quiz["attempts_left"]):
                break
            self._spend(page, SECONDS_PER_QUESTION * len(questions))
            quiz = page.answer_quiz([self._answer(one, attempt) for one in questions])
        return VisitResult("quiz")

    def _answer(self, question: Mapping[str, object], attempt: int) -> int:
        known = self._spec.quiz.questions if self._spec.quiz else ()
        right = next(one for one in known if one.question == question["question"])
        places = [str(place) for place in range(len(right.choices))]
        rng = self.profile.rng("answers", right.question, attempt)
        return int(_slip(str(right.answer), places, rng, self.profile.error_rate))


def _slip(right: str, all_of: Sequence[str], rng: Random, error_rate: float) -> str:
    others = [one for one in all_of if one != right]
    return rng.choice(others) if rng.random() < error_rate else right


def _open_items(state: Json) -> list[Json]:
    # If nothing is missing, the round was closed and accepts the HIT as it is.
    return [item for item in state["items"] if not item["done"]] if state["missing"] is not None else []


def _names(spec: TaskSpec) -> tuple[str, str]:
    """Return the names of the context field and of the input field."""
    return spec.with_role("context")[0].name, spec.with_role("input")[0].name
