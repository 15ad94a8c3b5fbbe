"""The command line of the benchmarks: what was measured is shown, however it ends."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks.figure import Reach, figure
from topologies.errors import RingroadError


@pytest.mark.parametrize(("ending", "code"), [(KeyboardInterrupt(), 130), (RingroadError("no root", "be root"), 1)])
def test_figures_stay_whatever_ends_the_measuring(monkeypatch: pytest.MonkeyPatch, capsys, ending, code):
    # given a benchmark that has one figure, and then ends early
    def measure(say):
        yield figure("speed", 1.0, "s", "", Reach(at_most=2))
        raise ending

    monkeypatch.setitem(command.BENCHMARKS, "foundation", measure)
    # when
    assert command.main(["foundation", "--json"]) == code
    # then
    shown = capsys.readouterr()
    assert [each["name"] for each in json.loads(shown.out)["figures"]] == ["speed"]
    assert "interrupted" in shown.err or "remedy: be root" in shown.err
