import pytest

from common.errors import CodedError, Hint


class SampleError(CodedError):
    code = "sample"


def test_an_error_carries_its_code_its_retry_flag_and_its_hint() -> None:
    error = SampleError("no open round", hint=Hint("open_round", task="nli"))
    assert str(error) == "no open round"
    assert error.as_data() == {
        "code": "sample",
        "retry": False,
        "hint": {"action": "open_round", "params": {"task": "nli"}},
    }


def test_a_public_error_class_without_a_code_is_a_programming_error() -> None:
    with pytest.raises(TypeError):
        type("Uncoded", (CodedError,), {})


def test_hints_compare_by_value() -> None:
    assert Hint("open_round", task="nli") == Hint("open_round", task="nli")
    assert len({Hint("open_round", task="nli"), Hint("open_round", task="qa")}) == 2
