"""Writing: a sentence for a prompt and a label, always the same one for the same seed, person and try."""

import re
from dataclasses import dataclass
from random import Random

from plugin.simulation.phrases import ANY_THING, BAD, GOOD, PATTERNS, PEOPLE, PLAIN, THINGS, TIMES

LONGEST_QUOTED = 160
TYPO_SHARE = 0.15
LONG_WORD = 5


@dataclass(frozen=True)
class Draft:
    """A sentence, what people read in it, and how it tries to lead a model astray."""

    text: str
    reading: str
    device: str


def write(prompt: str, target: str, rng: Random, *, skill: float, honest: bool = True) -> Draft:
    """A sentence about what the prompt is about, with the wanted reading.

    The more skilled, the more often it is a hard one. Whoever is not honest writes plainly what nobody asked for: the
    model is right about it, and so differs from the label.
    """
    if not honest:
        others = sorted({one.label for one in PATTERNS} - {target})
        return _filled(prompt, rng.choice(others), rng, hard=False)
    return _filled(prompt, target, rng, hard=rng.random() < skill)


def _filled(prompt: str, label: str, rng: Random, *, hard: bool) -> Draft:
    fitting = [one for one in PATTERNS if one.label == label and (one.device != PLAIN) is hard]
    if len(prompt) > LONGEST_QUOTED:
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
    """What the prompt is about, in one noun."""
    words = re.findall(r"[a-z]+", prompt.lower())
    named = (THINGS.get(word) or THINGS.get(word.removesuffix("s")) for word in words)
    return next((thing for thing in named if thing), ANY_THING)


def _articles(text: str) -> str:
    """The text with `an` before vowels; the patterns write `a` before every gap."""
    return re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text)


def _misspelt(text: str, rng: Random) -> str:
    """The text with two letters of one long word in the wrong order, as fingers do."""
    words = text.split(" ")
    long = [place for place, word in enumerate(words) if word.isalpha() and len(word) >= LONG_WORD]
    if not long:
        return text
    place = rng.choice(long)
    word = words[place]
    at = rng.randrange(1, len(word) - 2)
    words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)
