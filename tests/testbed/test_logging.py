"""Log lines of the testbed, next to Mininet's way of logging."""

import subprocess
import sys


def test_a_warning_is_one_line_though_mininet_was_imported():
    script = "import testbed.bed as bed; bed.log.warning('no netem'); bed.log.warning('twice')"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert said.stderr == "no netem\ntwice\n"
