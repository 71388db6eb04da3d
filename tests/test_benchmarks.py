"""What all commands of benchmarks/ have in common: they say what they do before they do it."""

import pytest
from click.testing import CliRunner
from common import ROOT, script

NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
NAMES.remove("side_by_side")  # no command: what they share


@pytest.mark.parametrize("name", NAMES)
def test_help_tells_the_command_and_runs_nothing(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    command = script(f"benchmarks/{name}.py")
    monkeypatch.setattr(command, "save", None, raising=False)  # a table would fail
    done = CliRunner().invoke(command.main, ["--help"])
    assert done.exit_code == 0, done.output
    assert "Usage" in done.output
    assert f"python benchmarks/{name}.py" in command.__doc__
