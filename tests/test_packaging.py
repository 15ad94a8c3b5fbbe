"""What setup.py installs is all that the four packages need: each file that is no module, each package they import."""

import ast
import runpy
import sys
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).parents[1]
PACKAGES = ("topologies", "controller", "workers", "testbed")
SET_UP_BY_THE_SCRIPT = {"mininet", "ryu", "os_ken"}
"""scripts/setup installs them, for the reasons that setup.py gives."""
NAMES = {"yaml": "PyYAML", "prometheus_client": "prometheus-client"}
WITH_OTHERS = {"click": "typer", "pydantic_core": "pydantic"}


@pytest.fixture
def given(monkeypatch):
    """What setup.py hands to setuptools."""
    found = {}
    monkeypatch.setattr(setuptools, "setup", lambda **fields: found.update(fields))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    return found


def test_every_file_that_is_no_module_is_installed(given):
    installed = {
        file
        for package, patterns in given["package_data"].items()
        for pattern in patterns
        for file in ROOT.joinpath(*package.split(".")).glob(pattern)
    }
    there = {
        file
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and file.suffix != ".py" and file.parent.name != "__pycache__"
    }

    assert there
    assert sorted(str(file.relative_to(ROOT)) for file in there - installed) == []


def test_every_folder_with_modules_is_a_package_that_is_installed(given):
    folders = {file.parent for package in PACKAGES for file in (ROOT / package).rglob("*.py")}

    assert sorted(given["packages"]) == sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders)


def test_every_package_that_is_imported_is_required(given):
    required = {requirement.split(">=")[0] for requirement in given["install_requires"]}
    imported = {name for package in PACKAGES for file in (ROOT / package).rglob("*.py") for name in _imported(file)}
    others = imported - set(PACKAGES) - sys.stdlib_module_names - SET_UP_BY_THE_SCRIPT

    assert {WITH_OTHERS.get(name, NAMES.get(name, name)) for name in others} == required


def _imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found
