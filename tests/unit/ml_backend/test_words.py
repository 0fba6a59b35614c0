"""Word by word, a text has the same tokens as the tokenizer gives to the whole of it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from ml_backend.text import normalise
from ml_backend.words import MAX_WORD_CHARS, WordTokens

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-é中"
WORDS = ("the", "not", "good", "movie", "un", "##happy", "##ness", "##s", "e", "##e")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def bert() -> Tokenizer:
    pieces = [*SPECIAL, *WORDS, *ALPHABET, *(f"##{one}" for one in ALPHABET)]
    vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(one, tokenizer.token_to_id(one)) for one in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


TOKENIZER = bert()
READ = WordTokens.of(TOKENIZER)

TEXT = st.text(max_size=60) | st.text(f"{ALPHABET}ABÉ \u0301\u200d[]", max_size=60)


@given(text=TEXT)
@example("The movie's unhappyness, NOT good!")
@example("[MASK] a[SEP]b [CLS]")
@example("e \u0301 e\u0301 \u00a0x")
@example("x" * (MAX_WORD_CHARS + 1) + " " + "y" * 200)
@example("")
def test_a_text_has_the_tokens_that_the_tokenizer_gives_it(text: str) -> None:
    assert READ is not None
    whole = TOKENIZER.encode(normalise(text))
    assert READ.encode([normalise(text)]) == (whole.ids, whole.type_ids)


@given(first=TEXT, second=TEXT)
def test_so_has_a_pair_of_texts(first: str, second: str) -> None:
    assert READ is not None
    whole = TOKENIZER.encode(normalise(first), normalise(second))
    assert READ.encode([normalise(first), normalise(second)]) == (whole.ids, whole.type_ids)


def test_a_tokenizer_that_reads_spaces_is_left_alone() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"Ġ": 0, "a": 1, "Ġa": 2}, merges=[("Ġ", "a")]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    assert WordTokens.of(tokenizer) is None


@pytest.mark.parametrize("neighbour", ["lstrip", "rstrip", "single_word"])
def test_so_is_one_with_a_token_that_depends_on_its_neighbours(neighbour: str) -> None:
    tokenizer = bert()
    tokenizer.add_tokens([AddedToken("<user>", **{neighbour: True})])
    assert WordTokens.of(tokenizer) is None
