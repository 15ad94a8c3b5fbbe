"""Which exact kernel is the right one: by patch, configuration and source; and what is said where there is none."""

import json

import pytest

from testbed.kernels import exactbuild, exactkernel
from testbed.kernels.exactbuild import _options
from testbed.kernels.exactkernel import ExactKernel
from topologies.errors import InputError, RingroadError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ringroad" / "exact-kernel"


def built(source_version, recipe=None):
    folder = exactkernel.entry_folder(source_version)
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / exactkernel.BINARY
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    kernel = ExactKernel(program, "6.12.1-ringroad", source_version, recipe or exactkernel.recipe())
    kernel.save()
    return kernel


def test_nothing_built_is_said_with_what_it_takes():
    with pytest.raises(RingroadError) as caught:
        exactkernel.require()

    assert caught.value.message == "the exact kernel is not built"
    assert "scripts/build-exact-kernel" in caught.value.remedy
    assert "minutes" in caught.value.remedy


def test_a_kernel_that_is_built_is_found_with_what_it_was_made_from():
    kernel = built("6.12.1-1")

    assert exactkernel.find() == kernel
    assert exactkernel.require() == kernel


def test_of_two_sources_the_one_built_last_is_taken():
    built("6.12.2-1")
    later = built("6.12.1-1")

    assert exactkernel.find() == later


def test_another_patch_or_configuration_is_another_kernel(tmp_path, monkeypatch):
    built("6.12.1-1")
    before = exactkernel.recipe()
    changed = tmp_path / "config"
    changed.write_text(exactkernel.CONFIG.read_text() + "CONFIG_MORE=y\n")

    monkeypatch.setattr(exactkernel, "CONFIG", changed)

    assert exactkernel.recipe() != before
    assert exactkernel.find() is None


@pytest.mark.parametrize("spoil", ["no note", "half a note", "no program", "program that does not run"])
def test_a_kernel_that_is_not_whole_does_not_count(spoil):
    kernel = built("6.12.1-1")
    note = kernel.path.with_name(exactkernel.NOTE)

    if spoil == "no note":
        note.unlink()
    elif spoil == "half a note":
        note.write_text(note.read_text()[:20])
    elif spoil == "no program":
        kernel.path.unlink()
    else:
        kernel.path.chmod(0o644)

    assert exactkernel.find() is None


def test_the_note_beside_a_kernel_moves_with_its_folder(cache):
    kernel = built("6.12.1-1")

    assert json.loads(kernel.path.with_name(exactkernel.NOTE).read_text())["path"] == exactkernel.BINARY


def test_an_option_of_a_configuration_is_read_whether_it_is_set_or_left_out():
    text = 'CONFIG_A=y\n# CONFIG_B is not set\n# a remark about CONFIG_C\nCONFIG_D="-x"\n'

    assert _options(text) == {
        "CONFIG_A": "CONFIG_A=y",
        "CONFIG_B": "# CONFIG_B is not set",
        "CONFIG_D": 'CONFIG_D="-x"',
    }


def test_the_patch_says_what_its_licence_is_and_what_it_changes():
    header, _, changes = exactkernel.PATCH.read_text().partition("diff --git")

    assert header.startswith("SPDX-License-Identifier: GPL-2.0\n")
    changed = {line.removeprefix("+++ b/") for line in changes.splitlines() if line.startswith("+++ b/")}
    assert {name for name in changed if not name.startswith(("arch/um/", "arch/x86/um/"))} == {"drivers/char/random.c"}
    assert "sched_yield" in header
    assert "200 ns" in header


def test_a_version_of_the_source_that_apt_does_not_know_is_refused_with_those_it_knows(cache, monkeypatch):
    monkeypatch.setattr(exactbuild, "_have_tools", lambda say: None)
    monkeypatch.setattr(exactbuild, "_known_sources", lambda: ["6.12.2-1", "6.12.1-1"])
    monkeypatch.setattr(exactbuild.os, "geteuid", lambda: 1000)

    with pytest.raises(InputError) as caught:
        exactbuild.build(print, jobs=1, source_version="6.12.9-1")

    assert "6.12.9-1" in str(caught.value)
    assert caught.value.remedy == "choose among 6.12.2-1, 6.12.1-1"
    assert not cache.exists()
