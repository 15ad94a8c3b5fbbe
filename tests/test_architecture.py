"""The rules of the house that a machine can check: dependencies, style, documentation, size, what is imported when."""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent
PACKAGES = ("topologies", "controller", "workers", "testbed")
MODULES = sorted(path for name in (*PACKAGES, "scripts") for path in (ROOT / name).rglob("*.py"))
MAX_LINES = 450

RYU = {"ryu", "os_ken", "eventlet"}
MAY_KNOW_RYU = {"controller/stack.py", "controller/app.py", "controller/ofmsgs.py"}


def _run(*command: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _imported(path: Path) -> set[str]:
    """Top-level names of all that a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(str(node.module).split(".")[0])
    return names


def test_dependencies_point_one_way():
    done = _run(str(TOOLS / "lint-imports"), "--no-logo", "--no-cache")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [("check",), ("format", "--check")], ids=["lint", "format"])
def test_the_code_is_clean_to_the_linter(command):
    done = _run(str(TOOLS / "ruff"), *command, "--no-cache", ".")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_every_module_says_what_it_is_for(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))

    assert docstring, f"{_name(path)} has no docstring"


def test_no_file_is_longer_than_a_person_can_keep_in_mind():
    files = [*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").glob("[a-z]*[!s]")]
    lengths = {_name(path): len(path.read_text().splitlines()) for path in files if path.is_file()}

    assert {name: length for name, length in lengths.items() if length >= MAX_LINES} == {}


def test_no_two_test_files_have_one_name_which_pytest_would_take_for_the_same():
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))

    assert [name for name, count in names.items() if count > 1] == []


def test_only_the_rim_of_the_controller_knows_ryu():
    knowing = {_name(path) for path in MODULES if _imported(path) & RYU}

    assert knowing <= MAY_KNOW_RYU


def test_nothing_but_workers_knows_torch():
    knowing = {_name(path) for path in MODULES if "torch" in _imported(path)}

    assert {name for name in knowing if not name.startswith("workers/")} <= {"testbed/doctor.py"}


def test_the_command_line_imports_nothing_heavy_until_a_verb_needs_it():
    heavy = {"torch", "matplotlib", "scipy", "numpy", "networkx", "mininet", "pyroute2", "ryu", "pydantic"}
    program = "import sys, testbed.cli; print(*{name.split('.')[0] for name in sys.modules})"

    loaded = set(_run(sys.executable, "-c", program).stdout.split())

    assert "testbed" in loaded
    assert loaded & heavy == set()


def test_every_package_of_a_requirement_is_pinned_to_one_version():
    lines = (ROOT / "requirements.txt").read_text().splitlines()

    requirements = [line for line in lines if line and not line.startswith("#")]

    assert requirements
    assert [line for line in requirements if line.count("==") != 1] == []
