from __future__ import annotations

import json
from pathlib import Path

import pytest
from wans import wan_of, wiring_of

from controller.settings import (
    ControllerConfig,
    ControllerSettings,
    config_from_json,
    config_to_json,
    load_config,
    save_config,
)
from topologies import InputError


def _config() -> ControllerConfig:
    wan = wan_of({"ab": 1e8, "bc": 1e8}, transit="b")
    return ControllerConfig(wan, wiring_of(wan), Path("/run/x.sock"), ControllerSettings("shortest", 0.3, 2))


def test_a_configuration_survives_its_file(tmp_path: Path):
    save_config(_config(), tmp_path / "c.json")

    assert load_config(tmp_path / "c.json") == _config()
    assert (tmp_path / "c.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tunels": 3}, "unknown key.*tunels"),
        ({"period_s": 0}, "period_s is wrong.*0"),
        ({"margin": float("nan")}, "margin is wrong"),
        ({"stack": "nox"}, "stack is wrong.*nox"),
        ({"tunnels": "four"}, "wrong form"),
        ({"dpids": {"a": 1, "b": 1, "c": 3}}, "a different datapath id"),
        ({"dpids": {"a": 1}}, "dpids is wrong"),
        ({"ports": [["a", "b", 1]]}, "ports is wrong"),
        ({"hosts": 7}, "wrong form"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused_with_the_place(change, complaint):
    with pytest.raises(InputError, match=complaint):
        config_from_json({**config_to_json(_config()), **change})


def test_a_missing_key_is_named():
    plain = config_to_json(_config())
    del plain["hosts"]

    with pytest.raises(InputError, match=r"missing.*hosts"):
        config_from_json(plain)


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps("text")])
def test_a_file_that_holds_no_configuration_is_refused_by_name(tmp_path: Path, content: str):
    (tmp_path / "c.json").write_text(content)

    with pytest.raises(InputError, match=r"c\.json"):
        load_config(tmp_path / "c.json")


def test_a_file_that_does_not_exist_is_refused_by_name(tmp_path: Path):
    with pytest.raises(InputError, match=r"none\.json.*No such file"):
        load_config(tmp_path / "none.json")
