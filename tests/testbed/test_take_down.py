"""Taking down goes on where a step fails, and what is left can be found again."""

import logging

import pytest

from testbed.bed import Testbed
from testbed.emulation import interfaces, openvswitch, state
from testbed.emulation.interfaces import TcpSettings
from testbed.emulation.network import Network
from testbed.emulation.openvswitch import OpenVSwitchError
from testbed.emulation.plan import NetworkPlan
from topologies.builtins import builtin

WAN = builtin("mesh4")


def silent(*_, **__):
    raise OpenVSwitchError("Open vSwitch does not answer")


def test_interfaces_go_even_if_open_vswitch_does_not_answer(monkeypatch):
    removed = []
    monkeypatch.setattr(openvswitch, "vsctl", silent)
    monkeypatch.setattr(interfaces, "remove", lambda _, names: removed.extend(names))
    network = Network(NetworkPlan("abcd", WAN), "netdev", TcpSettings(), lambda *_: None)
    with pytest.raises(OpenVSwitchError):
        network.down(None)
    assert set(network.interface_names()) <= set(removed)


@pytest.mark.parametrize("fails", [False, True])
def test_the_state_folder_stays_exactly_where_something_else_does(monkeypatch, caplog, fails):
    # given a testbed of which two things are to be undone, the state folder last
    gone = []
    monkeypatch.setattr(state, "remove_state_folder", gone.append)
    bed = Testbed(WAN)
    bed._undo = [bed._forget, silent if fails else lambda: None]
    # when
    with caplog.at_level(logging.WARNING):
        bed._take_down()
    # then
    assert gone == ([] if fails else [bed.state])
    assert ("ringroad clean" in caplog.text) == fails
