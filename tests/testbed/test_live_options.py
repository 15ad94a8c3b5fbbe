"""Options of the verbs that bring a testbed up: what would be of no effect is refused before anything starts."""

import pytest
from typer.testing import CliRunner

from testbed.cli import app


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("up", "mesh4", "--listen", "8080"), "remedy: add --dashboard"),
        (("up", "mesh4", "--token-file", "t"), "remedy: add --dashboard"),
        (("up", "mesh4", "--payload", "8MiB"), "remedy: add --workers"),
        (("up", "mesh4", "--every", "1s"), "remedy: add --workers"),
        (("up", "mesh4", "--source", "probe"), "remedy: add --workers"),
        (("up", "mesh4", "--t-wan", "nan"), "(got 'nan')\n  remedy: write it like 25ms"),
        (("up", "mesh4", "--dashboard", "--listen", "127.0.0.1:8_0"), "ADDRESS:PORT"),
        (("up", "mesh4", "--kernel", "exact"), "remedy: take uml"),
        (("demo", "--kernel", "exact"), "remedy: take uml"),
        (("demo", "--once"), "ringroad demo --tour --once"),
        (("capture", "a", "b", "--for", "-1s"), "--for"),
        (("capture", "a", "b", "--for", "9e99h"), "--for"),
    ],
)
def test_what_would_be_of_no_effect_is_refused(arguments, said):
    done = CliRunner().invoke(app, arguments)

    assert done.exit_code == 2
    assert said in done.output
