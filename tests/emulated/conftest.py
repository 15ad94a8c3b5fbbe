"""Every emulated test leaves the host as it was; a module may share a testbed, and is held to it as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hoststate import host_state

from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.emulation.clean import clean
from topologies.builtins import builtin
from workers.client import WorkersClient, launch


@pytest.fixture(scope="session", autouse=True)
def what_others_left_is_gone() -> None:
    """A run that was killed before these tests has left something; the first testbed would remove it."""
    clean()


@pytest.fixture(scope="module", autouse=True)
def the_host_is_as_before(what_others_left_is_gone: None):
    """Compares interfaces, qdiscs, namespaces, bridges, sysctls, state folders and processes, before and after."""
    before = host_state()
    yield
    after = host_state()
    assert after == before


@pytest.fixture(scope="module")
def mesh_and_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Testbed, Path]]:
    """A mesh of four DCs at 100 Mbit/s whose routes never move, and a launcher."""
    with Testbed(builtin("mesh4"), controller=ControllerSettings(policy="shortest")) as bed:
        socket = bed.state / "workers.sock"
        launcher = launch(socket, tmp_path_factory.mktemp("launcher") / "launcher.log")
        try:
            yield bed, socket
        finally:
            launcher.terminate()
            launcher.wait(10)
            socket.unlink()


@pytest.fixture
def bed(mesh_and_launcher: tuple[Testbed, Path]) -> Iterator[Testbed]:
    """That mesh, as it was at first; a module may have a testbed of its own."""
    yield mesh_and_launcher[0]
    mesh_and_launcher[0].reset()


@pytest.fixture
def client(mesh_and_launcher: tuple[Testbed, Path], bed: Testbed) -> Iterator[WorkersClient]:
    """A client of its launcher."""
    with WorkersClient(mesh_and_launcher[1]) as connected:
        yield connected
