"""Advice on a text before its verdict: whether it has words, and whether it is in a language of the task.

Both checks are cheap and can be wrong, so nothing is refused. The language is judged by the script of the letters and,
for some languages, by very common words.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from templates.spec import TaskSpec

# Below this number of words, common words say nothing about the language.
MIN_WORDS = 4
MIN_FOREIGN_WORDS = 2
FOREIGN_FACTOR = 2
MIN_SCRIPT_SHARE = 0.5

_WORDS = re.compile(r"[^\W\d_]+")
_COMMON = {
    "de": "der die das und ist nicht ein eine ich du wir ihr mit auf für den dem des zu sich auch noch nur sehr "
    "war wie wenn dass aber oder hat habe haben sind bei nach von vom zum zur im am hier dort kein keine "
    "mein meine sein seine",
    "en": "the a an and is are was were be been not of to in on at for with that this it its he she they we you "
    "i my your his her their our have has had do does did but or if so as by from there here what who "
    "when how no can will would me him them us so too very all",
    "es": "el la los las un una y es no de que en por con para se lo su al del más pero como muy era está son "
    "fue este esta yo mi me te tu le nos hay ya todo cuando donde quien",
    "fr": "le la les un une et est ne pas de du des que qui dans pour avec sur ce cette il elle je tu nous vous "
    "ils elles son sa ses mon ma mes plus mais ou où très était être avoir ont sont au aux en",
    "it": "il lo la gli le un una e è non di che in per con si su del della dei al alla ma come più molto era "
    "sono mi ti ci io tu lui lei noi questo questa anche quando dove chi",
    "nl": "de het een en is niet van in op te dat die voor met zijn aan er maar om ook als dan nog naar wel was "
    "ik je we hij zij dit deze geen mijn hun heel waar wie",
    "pt": "o a os as um uma e é não de que em por com para se do da dos das no na mas como mais muito era está "
    "são foi este esta eu meu minha ele ela nós você isso quando onde quem",
}
COMMON_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}
# The first word of the Unicode names of a script's letters. Other languages that are listed use Latin letters.
_SCRIPTS = {
    ("CYRILLIC",): "be bg kk ky mk mn ru sr tg uk",
    ("ARABIC",): "ar ckb fa ps sd ug ur",
    ("HEBREW",): "he yi",
    ("GREEK",): "el",
    ("DEVANAGARI",): "hi mr ne sa",
    ("BENGALI",): "as bn",
    ("TAMIL",): "ta",
    ("TELUGU",): "te",
    ("THAI",): "th",
    ("ARMENIAN",): "hy",
    ("GEORGIAN",): "ka",
    ("ETHIOPIC",): "am ti",
    ("HANGUL", "CJK"): "ko",
    ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "CJK"): "ja",
    ("CJK",): "yue zh",
    (
        "LATIN",
        "MODIFIER",
    ): "af ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms nl no pl pt ro sk sl sq sv sw tl tr vi",
}
SCRIPTS = {language: names for names, languages in _SCRIPTS.items() for language in languages.split()}


def text_advice(spec: TaskSpec, texts: Mapping[str, str]) -> str | None:
    """Return what to point out about the texts that were written, by field name, in the task's language."""
    written = [texts[field.name] for field in spec.with_role("input") if texts.get(field.name, "").strip()]
    if not written:
        return None
    if spec.text_checks.words and not all(map(has_words, written)):
        return spec.messages.no_words
    if spec.text_checks.language and not is_language("\n".join(written), spec.languages):
        return spec.messages.other_language
    return None


def has_words(text: str) -> bool:
    """Return whether a text has a word: two letters in a row, or one letter of a script without capitals."""
    return any(len(word) > 1 or unicodedata.category(word) == "Lo" for word in _WORDS.findall(text))


def is_language(text: str, languages: tuple[str, ...]) -> bool:
    """Return whether a text can be in one of the languages; in doubt it can."""
    codes = {language.partition("-")[0] for language in languages}
    words = [word.lower() for word in _WORDS.findall(text)]
    return _is_script(words, codes) and not _is_foreign(words, codes)


def _is_script(words: list[str], codes: set[str]) -> bool:
    if not codes <= SCRIPTS.keys():
        return True
    letters = Counter("".join(words))
    wanted = {script for code in codes for script in SCRIPTS[code]}
    fitting = sum(count for letter, count in letters.items() if _script(letter) in wanted)
    return fitting >= MIN_SCRIPT_SHARE * letters.total()


@lru_cache(4_096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _is_foreign(words: list[str], codes: set[str]) -> bool:
    """Return whether the text has far more common words of another language than of these; some words are in both."""
    if len(words) < MIN_WORDS or not codes <= COMMON_WORDS.keys():
        return False
    there = set(words)
    ours = max(len(there & COMMON_WORDS[code]) for code in codes)
    foreign = max(len(there & common) for common in COMMON_WORDS.values())
    return foreign >= MIN_FOREIGN_WORDS and foreign > FOREIGN_FACTOR * ours
