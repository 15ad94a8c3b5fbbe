"""Every emulated test leaves the host as it was; a module may share a testbed, and is held to it as a whole."""

import pytest
from hoststate import host_state


@pytest.fixture(scope="module", autouse=True)
def the_host_is_as_before():
    """Compares interfaces, qdiscs, namespaces, bridges, sysctls, state folders and processes, before and after."""
    before = host_state()
    yield
    after = host_state()
    assert after == before
