"""What a wrong result looks like: each damage that a broken collective can do is caught and located."""

from collections.abc import Callable

import pytest
import torch

from workers.verification import Pattern, VerificationError

ELEMENTS, RANKS = 1000, 3


def gathered(pattern: Pattern, collective: int) -> torch.Tensor:
    output = torch.empty((RANKS, ELEMENTS), dtype=torch.int32)
    for rank in range(RANKS):
        pattern.fill(output[rank], rank, collective)
    return output


def _swapped(output: torch.Tensor, _: Pattern) -> None:
    output[[0, 1]] = output[[1, 0]].clone()


def _shifted(output: torch.Tensor, _: Pattern) -> None:
    output[1] = output[1].roll(1)


def _stale(output: torch.Tensor, pattern: Pattern) -> None:
    pattern.fill(output[1], 1, 6)


def _flipped(output: torch.Tensor, _: Pattern) -> None:
    output[1, 0] ^= 1


def test_a_right_result_passes():
    pattern = Pattern(ELEMENTS)
    pattern.check(gathered(pattern, 7), 7)


@pytest.mark.parametrize("damage", [_swapped, _shifted, _stale, _flipped])
def test_damage_is_caught(damage: Callable[[torch.Tensor, Pattern], None]):
    pattern = Pattern(ELEMENTS)
    output = gathered(pattern, 7)
    damage(output, pattern)
    with pytest.raises(VerificationError, match=r"collective 7, shard [01]: \d+ of 1000 elements are wrong"):
        pattern.check(output, 7)


def test_the_message_names_element_expected_and_got():
    pattern = Pattern(ELEMENTS)
    output = gathered(pattern, 7)
    expected = int(output[2, 998])
    output[2, 998] = 42
    with pytest.raises(VerificationError, match=rf"shard 2: 1 of 1000 .* element 998: expected {expected}, got 42"):
        pattern.check(output, 7)


def test_no_two_places_of_a_shard_hold_the_same_value():
    shard = torch.empty(1 << 20, dtype=torch.int32)
    Pattern(1 << 20).fill(shard, 0, 0)
    assert len(shard.unique()) == 1 << 20
