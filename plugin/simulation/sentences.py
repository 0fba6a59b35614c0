"""The sentences of the simulated crowd: patterns with a known meaning, written for Outfox, and how they are filled.

A pattern is filled with a thing from the prompt and with words of the lists below. People understand each one as its
label says; the hard ones mislead a reader who goes by single words. The same seed, worker and attempt always give the
same sentence. The record keeps what each sentence means, and how long a person would have worked, over restarts.
"""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from templates import Pack

MAX_QUOTED_LENGTH = 160
TYPO_SHARE = 0.15
MIN_TYPO_LENGTH = 5
PLAIN = "plain"


@dataclass(frozen=True)
class Pattern:
    """A sentence with gaps, its rhetorical device, and its meaning."""

    label: str
    device: str
    text: str


def _patterns(label: str, texts: Mapping[str, Sequence[str]]) -> list[Pattern]:
    return [Pattern(label, device, text) for device, some in texts.items() for text in some]


NEGATIVE = {
    PLAIN: (
        "The {thing} was {bad}, and {who} thought so too.",
        "What a {bad} {thing}; we left after {time}.",
        "I am disappointed: the {thing} was {bad} and {bad2}.",
    ),
    "sarcasm": (
        "Oh {good}, {time} in a queue for a {thing} that {who} had praised to the skies, just as I love it.",
        "A {good} idea, this {thing}, if the aim is that nobody ever comes back.",
        "Congratulations on a {thing} that even {who}, who likes everything, sent back after {time}.",
        "Thank you so much for the {thing}; {who} had always wanted to waste {time}.",
    ),
    "negation": (
        "I would not call this {thing} {good}, nor {good2}, nor worth the trip, whatever {who} says.",
        "There was nothing {good} about the {thing}, and nothing that {who} would come back for.",
        "The {thing} is not {good}, it only looks {good2} in the pictures.",
    ),
    "expectation": (
        "The {thing} was supposed to be {good}; ours was anything but, and {time} did not change that.",
        "I wish that the {thing} had been half as {good} as the story that {who} told about it.",
        "With a bit of love and {time} more, this could have been a {good} {thing}.",
    ),
    "idiom": (
        "The {thing} cost an arm and a leg, and {who} could have had the same for a song.",
        "After {time} with this {thing}, {who} was at the end of the rope.",
        "The {thing} left me cold, however {good} {who} makes it sound.",
    ),
    "mixed": (
        "The welcome was {good} and the music {good2}, but we came for the {thing}, and that spoiled the day.",
        "Everyone was {good} to {who}, the view was {good2}, and none of it makes up for the {thing}.",
    ),
    "comparison": (
        "{Who} has had a better {thing} at a petrol station, and that one was open all night.",
        "If you have never met a {good} {thing}, you may take this one for it.",
    ),
}
POSITIVE = {
    PLAIN: (
        "The {thing} was {good}, and {who} thought so too.",
        "What a {good} {thing}; {who} did not want to leave.",
        "I am delighted: the {thing} was {good} and {good2}.",
    ),
    "negation": (
        "I have nothing {bad} to say about the {thing}, and {who} says that I complain about everything.",
        "Not once in {time} was the {thing} {bad}, which I cannot say of any other.",
        "Never a {bad} minute with this {thing}, and {who} has stopped looking for another.",
    ),
    "expectation": (
        "We dreaded a {bad} {thing}, and {who} has rarely been so glad to be wrong.",
        "Everybody warned us of a {bad}, {bad2} {thing}; after {time} I can only laugh at them.",
        "I came to write a {bad} review of the {thing}, and could not find a reason.",
    ),
    "idiom": (
        "The {thing} is to die for, and {who} is ruined for every other one.",
        "This {thing} knocked the socks off {who}, who is hard to shock.",
        "I could kill {who} for keeping this {thing} from me for {time}.",
    ),
    "mixed": (
        "The queue was {bad} and the weather {bad2}, but the {thing} made up for all of it twice over.",
        "Yes, it took {time}, yes, the chairs are {bad}, and yes, {who} would do it again tomorrow for the {thing}.",
    ),
    "comparison": (
        "Show me a better {thing} and I will eat my hat, and the one of {who} too.",
        "Every other {thing} looks {bad} beside this one, as {who} found out in {time}.",
    ),
    "complaint": (
        "My only complaint about the {thing} is that it was over after {time}.",
        "The trouble with this {thing} is that {who} now refuses to go anywhere else.",
    ),
}
NEUTRAL = {
    PLAIN: (
        "The {thing} takes {time}, and {who} goes there on Mondays.",
        "There is a {thing} on the second floor, {time} from the station.",
        "{Who} asked where the {thing} is.",
    ),
    "report": (
        "The form asks whether the {thing} was {good}, fair or {bad}, and takes {time} to fill in.",
        "A complaint about the {thing} is answered within {time}, and a compliment is passed on to {who}.",
        "The article counts people who love the {thing} and people who hate it, and gives both figures.",
        "The prize for the most {good} {thing} is given in May, the one for the most {bad} in June.",
    ),
    "quotation": (
        "{Who} wrote “{bad}” on the card about the {thing}, and a colleague wrote “{good}”.",
        "“{prompt}” is the sentence that {who} has to translate by Friday.",
        "In the exercise, “{good}” has to be replaced by a word that fits the {thing}.",
    ),
    "name": (
        "The paint on the {thing} is called Perfect Day, the one on the door Sad Morning.",
        "The {thing} is next to a shop by the name of Love and Misery, {time} from here.",
    ),
    "question": (
        "Does anybody know whether the {thing} is {good} or {bad}? {Who} has not been there yet.",
        "Is it bad manners to bring {who} to the {thing}, or is that normal here?",
    ),
}
PATTERNS = (
    *_patterns("negative", NEGATIVE),
    *_patterns("positive", POSITIVE),
    *_patterns("neutral", NEUTRAL),
)

# The first word of the prompt that is listed here is the subject, as a singular noun.
THINGS = {
    "mussels": "starter", "pizza": "pizza", "lunch": "lunch", "curry": "curry", "room": "room", "walls": "room",
    "breakfast": "breakfast", "umbrella": "hotel", "battery": "battery", "charging": "phone", "sim": "phone",
    "scene": "film", "cast": "film", "film": "film", "necklace": "plot", "chapter": "novel", "character": "novel",
    "paperback": "paperback", "marshes": "book", "doctor": "doctor", "waiting": "surgery", "patients": "surgery",
    "dentist": "dentist", "bob": "haircut", "colour": "salon", "cut": "haircut", "garage": "garage",
    "brakes": "repair", "wholesaler": "garage", "parcel": "parcel", "courier": "courier", "delivery": "delivery",
    "ice": "order", "bus": "bus", "tram": "tram", "pass": "ticket", "driver": "driver", "turnovers": "bakery",
    "vegetables": "market", "bakery": "bakery", "instructor": "instructor", "machines": "gym", "pool": "pool",
    "exhibition": "exhibition", "guide": "guide", "tour": "tour", "program": "program", "app": "app",
    "file": "program", "puzzles": "puzzle", "tutorial": "tutorial", "players": "game", "jacket": "jacket",
    "shoes": "shoe shop", "shirt": "shirt", "drill": "drill", "plants": "nursery", "ladder": "ladder",
    "teacher": "teacher", "video": "course", "course": "course", "receipt": "insurance", "department": "bank",
    "pin": "branch", "movers": "moving company", "cleaners": "cleaning service", "company": "moving company",
    "train": "train", "toy": "toy", "flight": "flight", "runway": "flight",
}  # fmt: skip
ANY_THING = "place"

GOOD = ("excellent", "lovely", "wonderful", "charming", "perfect", "delightful", "superb", "fantastic", "brilliant")
BAD = ("awful", "terrible", "dreadful", "horrible", "miserable", "dull", "ghastly", "hopeless", "appalling")
TIMES = ("ten minutes", "twenty minutes", "half an hour", "forty minutes", "an hour", "two hours", "a whole day",
         "three days", "a week", "six weeks")  # fmt: skip
PEOPLE = ("my sister", "my boss", "our neighbour", "my uncle", "the lady behind us", "my flatmate", "our landlord",
          "a friend of mine", "my brother-in-law", "the man at the counter")  # fmt: skip


@dataclass(frozen=True)
class Draft:
    """A sentence, its meaning, and the device that it tries to mislead a model with."""

    text: str
    reading: str
    device: str


def write(prompt: str, target: str, rng: Random, *, skill: float, honest: bool = True) -> Draft:
    """Return a sentence about the prompt's subject with the wanted meaning.

    The higher the skill, the more often it is a hard one. A dishonest worker writes a plain sentence with another
    meaning: the model is right about it, and so differs from the requested label.
    """
    if not honest:
        others = sorted({one.label for one in PATTERNS} - {target})
        return _filled(prompt, rng.choice(others), rng, hard=False)
    return _filled(prompt, target, rng, hard=rng.random() < skill)


def _filled(prompt: str, label: str, rng: Random, *, hard: bool) -> Draft:
    fitting = [one for one in PATTERNS if one.label == label and (one.device != PLAIN) is hard]
    if len(prompt) > MAX_QUOTED_LENGTH:
        fitting = [one for one in fitting if "{prompt}" not in one.text]
    device = rng.choice(sorted({one.device for one in fitting}))
    pattern = rng.choice([one for one in fitting if one.device == device])
    good, good2 = rng.sample(GOOD, 2)
    bad, bad2 = rng.sample(BAD, 2)
    who = rng.choice(PEOPLE)
    gaps = {"good": good, "good2": good2, "bad": bad, "bad2": bad2, "who": who, "Who": who[0].upper() + who[1:]}
    thing, quoted = thing_of(prompt), prompt.rstrip(".").replace("“", "'").replace("”", "'")
    text = _articles(pattern.text.format(**gaps, thing=thing, time=rng.choice(TIMES), prompt=quoted))
    if not hard and rng.random() < TYPO_SHARE:
        return Draft(_misspelt(text, rng), pattern.label, "typo")
    return Draft(text, pattern.label, pattern.device)


def thing_of(prompt: str) -> str:
    """Return the subject of the prompt, as one noun."""
    words = re.findall(r"[a-z]+", prompt.lower())
    named = (THINGS.get(word) or THINGS.get(word.removesuffix("s")) for word in words)
    return next((thing for thing in named if thing), ANY_THING)


def _articles(text: str) -> str:
    """Write `an` before vowels; the patterns have `a` before every gap."""
    return re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text)


def _misspelt(text: str, rng: Random) -> str:
    """Swap two letters of one long word, like a typing error."""
    words = text.split(" ")
    long = [place for place, word in enumerate(words) if word.isalpha() and len(word) >= MIN_TYPO_LENGTH]
    if not long:
        return text
    place = rng.choice(long)
    word = words[place]
    at = rng.randrange(1, len(word) - 2)
    words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


class SimulationRecord:
    """Tells simulated validators what a sentence means; Outfox itself never reads it."""

    def __init__(self, file: Path, pack: Pack) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        (self._input,) = pack.spec.with_role("input")
        # Gold questions come from the seed.
        self._readings = {row.fields[self._input.name]: row.label or "" for row in pack.seed}
        if file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                self._learn(_parsed(line))

    @property
    def seconds(self) -> Mapping[str, float]:
        """The seconds that a person would have needed, by assignment id."""
        return self._seconds

    def note_text(self, text: str, reading: str) -> None:
        """Record what people understand by a sentence."""
        self._note({"text": text, "reading": reading})

    def note_work(self, assignment: str, seconds: float) -> None:
        """Record how long a person would have worked on an assignment."""
        self._note({"assignment": assignment, "seconds": round(seconds, 1)})

    def reading(self, text: str) -> str:
        """Return what people understand by a sentence; for an unknown one, by the most similar known sentence."""
        known = self._readings.get(text)
        if known is not None:
            return known
        words = _words(text)
        with self._lock:
            # Other threads write meanwhile.
            readings = dict(self._readings)
        closest = max(readings, key=lambda one: (_similarity(words, _words(one)), one))
        return readings[closest]

    def _note(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._learn(line)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _learn(self, line: Mapping[str, Any]) -> None:
        if "text" in line:
            self._readings[line["text"]] = line["reading"]
        elif "assignment" in line:
            self._seconds[line["assignment"]] = line["seconds"]


def _parsed(line: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}  # The incomplete last line of a killed process.
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))
