"""Which kernel is taken: by what a WAN needs and what a machine has."""

import pytest
from wans import wan_of

from testbed.kernels.choosing import Kernel, Needs, Offer, choose, needs_of
from testbed.kernels.images import seeded
from topologies import EdgeProperties
from topologies.errors import RingroadError

BARE = Offer(netem=False, congestion_controls=("cubic", "reno"))
FULL = Offer(netem=True, congestion_controls=("cubic", "reno"))
NO_OTHER = Offer(netem=False, congestion_controls=("cubic",), uml="not installed (install it)", exact="not built")
DELAYED = Needs(("delay", "loss"), "cubic")


def test_a_wan_without_impairments_stays_on_the_machines_own_kernel():
    choice = choose(Kernel.AUTO, Needs((), "cubic"), BARE)
    assert (choice.kernel, choice.missing) == (Kernel.NATIVE, ())


def test_a_wan_with_delays_stays_there_too_where_there_is_netem():
    assert choose(Kernel.AUTO, DELAYED, FULL).kernel is Kernel.NATIVE


def test_a_wan_with_delays_goes_to_a_user_mode_kernel_where_there_is_no_netem_and_is_told_why():
    choice = choose(Kernel.AUTO, DELAYED, BARE)
    assert choice.kernel is Kernel.UML
    assert str(choice) == (
        "uml (a user-mode kernel, in real time): "
        "the WAN needs delay and loss, which this machine's kernel does not have"
    )


def test_a_congestion_control_that_is_missing_is_a_need_like_any_other():
    choice = choose(Kernel.AUTO, Needs((), "bbr"), BARE)
    assert choice.kernel is Kernel.UML
    assert "congestion control bbr" in choice.why


def test_without_another_kernel_the_run_goes_on_and_says_what_is_missing_and_how_to_get_it():
    choice = choose(Kernel.AUTO, DELAYED, NO_OTHER)
    assert choice.kernel is Kernel.NATIVE
    assert choice.missing == ("delay", "loss")
    assert "not installed (install it)" in str(choice)
    assert str(choice).endswith("; WITHOUT delay and loss")


def test_what_is_asked_for_by_name_is_taken():
    assert choose(Kernel.NATIVE, DELAYED, BARE).missing == ("delay", "loss")
    assert choose(Kernel.UML, Needs(), FULL).kernel is Kernel.UML
    assert choose(Kernel.EXACT, Needs(), FULL).kernel is Kernel.EXACT


@pytest.mark.parametrize("asked", [Kernel.UML, Kernel.EXACT])
def test_a_kernel_that_is_asked_for_and_not_there_is_an_error_with_its_remedy(asked):
    with pytest.raises(RingroadError, match=f"--kernel {asked.value}: not"):
        choose(asked, Needs(), NO_OTHER)


def test_the_needs_of_a_wan_are_those_of_any_of_its_edges():
    wan = wan_of({"ab": 50e6})
    assert needs_of(wan, "cubic") == Needs((), "cubic")
    lossy = EdgeProperties(50e6, delay_s=0.01, loss=0.01, reorder=0.1)
    changed = wan.with_properties({("b", "a"): lossy})
    assert needs_of(changed).impairments == ("delay", "loss", "reordering")


@pytest.mark.parametrize(
    ("seed", "drawn_from"), [(None, 1), (1, 1), (0, 0), (7, 7), (2**64 + 5, 5), (-1, 18446744073709551615)]
)
def test_chance_in_virtual_time_is_drawn_from_the_seed_that_is_given_or_from_one(seed, drawn_from):
    assert seeded(seed) == f"time-travel-seed={drawn_from}"
