from common.errors import CodedError, Hint


class RoundIsOpen(CodedError):
    """A class whose code follows from its name."""


class HTTPStatusWrong(CodedError):
    """A class with an acronym in its name."""


class SampleError(CodedError):
    code = "sample"


class _PrivateError(SampleError):
    """A class that programs do not see."""


def test_an_error_carries_its_code_its_retry_flag_and_its_hint() -> None:
    error = SampleError("no open round", hint=Hint("open_round", task="nli"))
    assert str(error) == "no open round"
    assert error.as_data() == {
        "code": "sample",
        "retry": False,
        "hint": {"action": "open_round", "params": {"task": "nli"}},
    }


def test_the_code_of_a_class_is_its_name_in_snake_case_unless_it_declares_another() -> None:
    assert RoundIsOpen.code == "round_is_open"
    assert HTTPStatusWrong.code == "http_status_wrong"
    assert SampleError.code == "sample"


def test_a_private_class_keeps_the_code_of_its_base() -> None:
    assert _PrivateError.code == "sample"


def test_hints_compare_by_value() -> None:
    assert Hint("open_round", task="nli") == Hint("open_round", task="nli")
    assert len({Hint("open_round", task="nli"), Hint("open_round", task="qa")}) == 2
