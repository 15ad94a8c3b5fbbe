"""What README.md and docs/ say can be done, can be: verbs, scripts, links, experiment files, the Python example."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import typer
import yaml
from typer.testing import CliRunner

from controller.policies import NAMES as path_policies
from testbed.cli import GROUPS, app
from testbed.experiment import read_experiment
from testbed.experimentfile import ExperimentSpec
from testbed.runfolder import RECORDS
from workers.policies import POLICIES as ring_policies

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
REFERENCE = (ROOT / "docs" / "experiment-file.md").read_text()
OTHERS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "Vagrantfile"]
    if path.name != "experiment-file.md"
}
TEXTS = {"README.md": README, "docs/experiment-file.md": REFERENCE, **OTHERS}

GROUP = typer.main.get_command(app)
COMMANDS = GROUP.commands

VERBS = sorted(
    {verb for text in TEXTS.values() for verb in re.findall(r"(?<![/\w])ringroad ((?:topologies )?[a-z]+)\b", text)}
)


def _all_commands(group):
    for command in group.commands.values():
        yield command
        yield from _all_commands(command) if hasattr(command, "commands") else ()


def _unknown_options(words: str) -> list[str]:
    """Options among the words of a command line that its verb does not have; what follows `--` is not the verb's."""
    verb, *rest = words.split(" -- ")[0].split()
    command = COMMANDS.get(verb)
    if hasattr(command, "commands") and rest:
        command = command.commands.get(rest[0])
    if command is None or verb == "sh":
        return []
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = re.findall(r"(?<![\w'-])--?[a-zA-Z][\w-]*", " ".join(rest))
    return [option for option in given if option not in known | {"-h", "--help"}]


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
    assert [verb for verb in COMMANDS if f"ringroad {verb}" not in README] == []


def test_every_verb_is_in_one_group_of_the_help():
    grouped = [verb for verbs in GROUPS.values() for verb in verbs]

    assert sorted(grouped) == sorted(COMMANDS)


def test_no_verb_s_line_in_the_help_is_cut():
    assert "..." not in CliRunner().invoke(app, ["--help"]).stdout.split("Experiments:", 1)[1]


@pytest.mark.parametrize("name", TEXTS)
def test_every_option_that_a_text_gives_a_verb_is_one_of_that_verb(name):
    commands = re.findall(r"(?:^ {4}|`)ringroad ([^`\n#]+)", TEXTS[name].replace("\\\n", " "), re.MULTILINE)

    assert [f"{words}: {option}" for words in commands for option in _unknown_options(words)] == []


def test_every_file_that_a_help_text_names_exists():
    named = {
        file
        for command in _all_commands(GROUP)
        for file in re.findall(r"\b(?:docs|experiments|examples|testbed|scripts)/[\w./-]+\w", command.help or "")
    }

    assert named
    assert [file for file in sorted(named) if not (ROOT / file).exists()] == []


def test_the_readme_leads_to_every_page():
    pages = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))

    assert [page for page in pages if f"({page}" not in README] == []


def test_every_picture_is_shown_somewhere():
    pictures = sorted(path.name for path in (ROOT / "docs" / "images").iterdir())

    assert [name for name in pictures if not any(f"images/{name})" in text for text in TEXTS.values())] == []


def test_no_section_is_empty():
    empty = r"^(#+) (.*)\n+(?=(#+) )"
    found = [
        f"{name}: {title}"
        for name, text in TEXTS.items()
        if name.endswith(".md")
        for level, title, following in re.findall(empty, re.sub(r"^```.*?^```", "code", text, flags=re.S | re.M), re.M)
        if len(following) <= len(level)
    ]

    assert found == []


def test_every_script_that_is_mentioned_exists():
    mentioned = {name for text in TEXTS.values() for name in re.findall(r"\bscripts/([a-z-]+)\b", text)}

    assert mentioned
    assert [name for name in sorted(mentioned) if not (ROOT / "scripts" / name).exists()] == []


def test_every_link_to_a_file_leads_to_one():
    targets = [(name, target) for name, text in TEXTS.items() for target in re.findall(r"\]\(([^)#:]+)\)", text)]

    assert targets
    assert [target for name, target in targets if not (ROOT / name).parent.joinpath(target).exists()] == []


def test_every_file_of_the_project_that_a_text_names_exists():
    named = r"`((?:docs|experiments|examples|topologies|controller|workers|testbed|scripts|tests)/[\w./-]+)`"
    files = [(name, file) for name, text in TEXTS.items() for file in re.findall(named, text)]

    assert files
    assert [(name, file) for name, file in files if not (ROOT / file).exists()] == []


def test_every_link_to_a_section_leads_to_one():
    links = [(name, *link) for name, text in TEXTS.items() for link in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text)]

    assert links
    assert [(name, file, title) for name, file, title in links if title not in _sections(name, file)] == []


def _sections(name: str, file: str) -> list[str]:
    """The names by which sections of `file`, as linked to from `name`, can be linked to."""
    page = (ROOT / name).parent / file if file else ROOT / name
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


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


def test_the_reference_has_every_choice_of_an_experiment():
    choices = [*ring_policies, *path_policies]
    choices += [choice for key, field in _leaves(ExperimentSpec) for choice in _literals(field.annotation)]

    assert [choice for choice in choices if f"`{choice}`" not in REFERENCE and f": {choice}" not in REFERENCE] == []


def test_the_reference_has_every_file_of_an_arm():
    assert [name for name in RECORDS if f"`{name}.jsonl`" not in REFERENCE] == []


def _leaves(model):
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield from _leaves(field.annotation)
        else:
            yield name, field


def _literals(annotation) -> list[str]:
    """Every word that stands in a Literal somewhere in this type."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [word for part in get_args(annotation) for word in _literals(part)]


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
