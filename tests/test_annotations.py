"""The check of annotations that all tests run under: what is alike is checked once, all else is checked."""

from typing import Literal

import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor

import annotations

ANSWERS = []


@annotations.jaxtyped(typechecker=beartype)
def scaled(
    x: Float[Tensor, "n d"], by: Float[Tensor, "d"], parts: list[int], times: Literal[1, 2] = 1
) -> Float[Tensor, "n d"]:
    return ANSWERS.pop() if ANSWERS else x * by * times


def ones(*shape):
    return torch.ones(*shape)


@pytest.mark.parametrize(
    "wrong",
    [
        (ones(2, 3), ones(2), []),
        (ones(2), ones(3), []),
        (ones(2, 3), ones(3).long(), []),
        (ones(2, 3), ones(3), ["1"]),
        (ones(2, 3), ones(3), [], 3),
        (ones(2, 3), None, []),
    ],
)
def test_arguments_of_another_kind_are_refused_whatever_was_right_before(wrong):
    for _ in range(2):
        assert scaled(ones(2, 3), ones(3), [], 2).sum() == 12
    for _ in range(2):
        with pytest.raises(TypeCheckError, match="checking the parameters"):
            scaled(*wrong)


@pytest.mark.parametrize("wrong", [ones(3, 3), ones(2, 3).long(), 1.0, None])
def test_results_of_another_kind_are_refused_whatever_was_right_before(wrong):
    right = (ones(2, 3), ones(3), [1])
    for answer in (ones(2, 3), ones(2, 3)):
        ANSWERS.append(answer)
        assert scaled(*right) is answer
    for _ in range(2):
        ANSWERS.append(wrong)
        with pytest.raises(TypeCheckError, match="checking the return value"):
            scaled(*right)


def test_what_is_alike_is_checked_once(monkeypatch):
    checked = []

    def counts(function):
        return lambda *given: checked.append(given) or function(*given)

    total = annotations.checked(lambda x, more: x, counts)
    for x in (ones(2), torch.zeros(2), ones(3), ones(2), 1, 2, "a", [ones(2)], [ones(3)], [1] * 17, [1] * 17):
        total(x, None)
    assert len(checked) == 8, "twice what is too long to be told in short"


def test_a_function_that_is_made_again_is_compiled_for_what_is_new_alone():
    compiled = []

    def made():
        def double(x: int) -> int:
            return 2 * x

        return annotations.checked(double, lambda function: compiled.append(function) or beartype(function))

    assert [made()(3) for _ in range(3)] == [6, 6, 6] and len(compiled) == 1
    with pytest.raises(BeartypeCallHintParamViolation):
        made()("a")
