"""What the simulated crowd writes with: sentence patterns whose meaning is known, written for Outfox.

A pattern is filled with a thing out of the prompt sentence and with words of the lists below. People read every one as
its label says; the hard ones lead astray whoever goes by single words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PLAIN = "plain"


@dataclass(frozen=True)
class Pattern:
    """A sentence with gaps, how it works, and what people read in it."""

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

# The first that stands in the prompt is written about; what is plural there is one thing here.
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
