"""SQuAD's measure of how far two answers agree: F1 over their words, articles and punctuation aside."""

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_words(text: str) -> list[str]:
    """The words that count, lower-cased."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def exact_match(prediction: str, truth: str) -> bool:
    """Whether the two have the same words in the same order."""
    return answer_words(prediction) == answer_words(truth)


def f1_score(prediction: str, truth: str) -> float:
    """The words' F1, from 0 to 1."""
    ours, theirs = answer_words(prediction), answer_words(truth)
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))
