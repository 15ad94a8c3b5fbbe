"""What README.md and docs/ say can be done, can be: verbs, scripts, links, experiment files, the Python example."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from testbed.experiment import read_experiment
from testbed.experimentfile import ExperimentSpec

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
REFERENCE = (ROOT / "docs" / "experiment-file.md").read_text()
OTHERS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "Vagrantfile"]
    if path.name != "experiment-file.md"
}
TEXTS = {"README.md": README, "docs/experiment-file.md": REFERENCE, **OTHERS}

VERBS = sorted(
    {verb for text in TEXTS.values() for verb in re.findall(r"(?<![/\w])ringroad ((?:topologies )?[a-z]+)\b", text)}
)


def _fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def _experiment_of_the_readme() -> str:
    section = README.split("## The experiment file\n", 1)[1].split("\nAll keys", 1)[0]
    return textwrap.dedent(section)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_is_mentioned_exists(verb):
    command = [sys.executable, "-m", "testbed.cli", *verb.split(), "--help"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert f"ringroad {verb}" in done.stdout or f"{verb}" in done.stdout


def test_every_verb_that_exists_is_mentioned_in_the_readme():
    help_text = subprocess.run(
        [sys.executable, "-m", "testbed.cli", "--help"],
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"},
    ).stdout
    listed = re.findall(r"^[│|\s]+([a-z]+)\s{2,}\S", help_text.split("Commands", 1)[1], re.MULTILINE)

    assert listed
    assert [verb for verb in listed if f"ringroad {verb}" not in README] == []


def test_every_script_that_is_mentioned_exists():
    mentioned = {name for text in TEXTS.values() for name in re.findall(r"\bscripts/([a-z-]+)\b", text)}

    assert mentioned
    assert [name for name in sorted(mentioned) if not (ROOT / "scripts" / name).exists()] == []


def test_every_link_to_a_file_leads_to_one():
    targets = [(name, target) for name, text in TEXTS.items() for target in re.findall(r"\]\(([^)#:]+)\)", text)]

    assert targets
    assert [target for name, target in targets if not (ROOT / name).parent.joinpath(target).exists()] == []


def test_the_experiment_of_the_readme_is_one():
    experiment = read_experiment(_experiment_of_the_readme(), ROOT / "README.yaml", memory_bytes=2**33)

    assert experiment.name == "my-experiment"
    assert [fault.kind for fault in experiment.faults] == ["down"]


@pytest.mark.parametrize("fragment", _fenced(REFERENCE, "yaml"), ids=lambda text: text.split("\n")[0][:40])
def test_every_fragment_of_the_reference_is_valid_in_an_experiment(fragment):
    whole = {"name": "x", "wan": "mesh4", "payload": "1MiB", "collectives": 100, "pacing": {"every": "1s"}}
    whole |= yaml.safe_load(fragment)

    read_experiment(yaml.safe_dump(whole, allow_unicode=True), ROOT / "docs" / "x.yaml", memory_bytes=2**33)


def test_the_reference_has_every_key_of_an_experiment():
    in_the_table = set(re.findall(r"^\| `([a-z_]+)[`.]", REFERENCE, re.MULTILINE))

    assert set(ExperimentSpec.model_fields) - in_the_table == set()


@pytest.mark.emulated
def test_the_python_example_of_the_readme_runs():
    (example,) = _fenced(README, "python")

    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )

    assert done.returncode == 0, done.stderr
    assert "('tokyo', 'oregon')" in done.stdout
    assert "Mbit/s of 30.0" in done.stdout
    assert "down: [('tokyo', 'oregon'), ('oregon', 'tokyo')]" in done.stdout
    assert "ping: answered" in done.stdout
