"""What all commands of benchmarks/ have in common: they say what they do before they do it, and a
table is replaced only by a table."""

import csv
import json
import math
import shlex
import sys

import click
import pytest
import torch
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


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """What the commands share, its tables in a folder of their own."""
    module = script("benchmarks/side_by_side.py")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return module


def test_a_table_is_written_as_a_whole_or_not_at_all(bench, monkeypatch):
    table = [{"arm": "a, b", "rate": 0.1 + 0.2, "n": 3}, {"arm": "c", "rate": "", "n": 4}]
    bench.save("one", table, seed=0)
    path = bench.RESULTS / "one.csv"
    before = b'arm,rate,n\n"a, b",0.3,3\nc,,4\n'
    assert path.read_bytes() == before
    assert json.loads((bench.RESULTS / "one.json").read_text())["seed"] == 0
    for call in (lambda: bench.save("one", []), lambda: bench.merged("one", ("arm",), [])):
        with pytest.raises(click.ClickException, match="no row is finished: results/one.csv stays"):
            call()
    with pytest.raises(ValueError, match="another"):  # a row with another column
        bench.save("one", [*table, {"another": 1}])
    assert path.read_bytes() == before
    assert sorted(file.name for file in bench.RESULTS.iterdir()) == ["one.csv", "one.json"]


def test_a_row_replaces_one_that_was_made_alike(bench):
    bench.save("two", [{"seed": 0, "rate": 0.001, "x": 1}, {"seed": 1, "rate": "", "x": 1}])
    new = [{"seed": 0, "rate": 1e-3, "x": 2}, {"seed": 1, "rate": 0.5, "x": 2}]
    assert bench.merged("two", ("seed",), new, same=("rate",)) == new  # an empty cell says nothing
    other = [{"seed": 0, "rate": 0.002, "x": 2}]
    with pytest.raises(click.ClickException) as told:
        bench.merged("two", ("seed",), other, same=("rate",))
    assert "has a row of rate 0.001 (seed 0), and this run has rate 0.002" in told.value.message
    assert [row["seed"] for row in bench.merged("two", ("seed",), other)] == ["1", 0]


def test_a_kept_row_is_that_of_its_settings(bench, tmp_path):
    file = tmp_path / "kept" / "0.json"
    rows = iter([{"x": 1}, {"x": 2}, {"x": 3}])

    def row_at(**settings):
        return bench.kept(file, settings, lambda: next(rows))["x"]

    assert [row_at(seed=0, rates=(1, 2)), row_at(rates=[1, 2], seed=0)] == [1, 1]
    assert [row_at(seed=1), row_at(seed=1)] == [2, 2]
    stored = json.loads(file.read_text())
    assert stored["settings"] == {"seed": 1} and "commit" in stored["provenance"]
    file.write_text(json.dumps(stored["row"]))  # as it was kept before
    assert row_at(seed=1) == 3


def table_of(command, name, *words, refused=""):
    """The rows of a table after a command; a refusal with these words where they are given."""
    done = CliRunner().invoke(command.main, words)
    assert bool(done.exit_code) == bool(refused) and refused in done.output, done.output
    path = sys.modules["side_by_side"].RESULTS / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_some_seeds_of_a_network_leave_the_others(command, monkeypatch):
    command = command("cnn_to_vit")
    times = iter(range(10))
    monkeypatch.setattr(command, "measured", lambda seed, _: {"seed": seed, "CNN": next(times)})
    monkeypatch.setattr(command, "load_images", lambda *_: None)
    assert len(table_of(command, "cnn_to_vit", "--seeds", "3")) == 3
    rows = table_of(command, "cnn_to_vit", "--seeds", "2")
    assert [(row["seed"], row["CNN"]) for row in rows] == [("0", "3"), ("1", "4"), ("2", "2")]


def test_starts_at_other_rates_are_no_rows_of_the_table(command, monkeypatch):
    command = command("conv_init")
    best = {}

    def loss(vit, _):
        start, rate = vit
        return {"loss": abs(rate - best.get(start, 3e-3)), "accuracy": 0.5}

    monkeypatch.setattr(command, "load_images", lambda *_, **__: None)
    monkeypatch.setattr(command, "trained_convs", lambda *_: None)
    monkeypatch.setattr(command, "split", lambda *_: (None, None))
    monkeypatch.setattr(command, "learned", lambda start, _, __, rate, *___: (start, rate))
    monkeypatch.setattr(command, "evaluate", loss)
    table_of(command, "conv_init", "--seeds", "2,1")
    both = table_of(command, "conv_init", "--seeds", "0")
    expected = [(start, str(seed)) for start in command.STARTS for seed in range(3)]
    assert [(row["start"], row["seed"]) for row in both] == expected
    told = "conv_init.csv is about 40, and this run about 3"
    assert table_of(command, "conv_init", "--epochs", "3", refused=told) == both
    best["as drawn"] = 1e-2
    assert table_of(command, "conv_init", "--seeds", "3", refused="and this run about") == both


@pytest.mark.parametrize("name, count", [("heads", 512), ("tokens", 4000), ("replace_heads", 1000)])
def test_measured_on_fewer_images_is_another_table(command, tmp_path, name, count):
    command = command(name)
    about = (ROOT / "results" / f"{name}.json").read_text()
    assert json.loads(about)["test_images"] == count
    (tmp_path / f"{name}.json").write_text(about)
    words = ["--images", str(tmp_path / "nowhere"), "--count"]
    done = CliRunner().invoke(command.main, [*words, "12"])
    assert done.exit_code == 2 and f"is about {count}, and this run about 12" in done.output
    # with as many it goes on, to images that are not there
    done = CliRunner().invoke(command.main, [*words, str(count)])
    assert done.exit_code == 1 and "nowhere" in str(done.exception)


def test_processors_keep_the_claims_of_other_ledgers(command, monkeypatch):
    command = command("processors")

    def held(id, verdict):
        rows = [
            {"claim": id, "instructions": name, "verdict": verdict} for name in ("avx2", "native")
        ]
        monkeypatch.setattr(command, "table", lambda _: (rows, [], [{"processor": verdict}]))
        return table_of(command, "processors", "--table")

    held("C-theorem-1", "old")
    held("A-noise", "old")
    rows = held("C-theorem-1", "new")
    assert [tuple(row.values()) for row in rows] == [
        ("A-noise", "native", "old"),
        ("A-noise", "avx2", "old"),
        ("C-theorem-1", "native", "new"),
        ("C-theorem-1", "avx2", "new"),
    ]


def test_engines_are_timed_in_turn(command, monkeypatch):
    command = command("selection_collapse")
    monkeypatch.setattr(sys.modules["side_by_side"], "SHORTEST", 0)
    calls = []
    monkeypatch.setattr(command, "fit", lambda *_, **__: calls.append("tokens"))
    monkeypatch.setattr(command, "fit_collapsed", lambda *_, **__: calls.append("collapsed"))
    row = command.measure("trained")
    assert calls == ["tokens", "collapsed"] * 5  # warm, once for the number of calls, three rounds
    assert list(row) == ["attention", "on_tokens", "tokens_per_s", "collapsed_per_s", "ratio"]


def test_predictions_that_were_met_stay(command, monkeypatch, tmp_path):
    """A run that ends early has replaced what it reached, and nothing else."""
    command = command("predictions")
    rows = (ROOT / "results" / "predictions.csv").read_text(encoding="utf-8").splitlines()[:4]
    (tmp_path / "predictions.csv").write_text("\n".join([*rows, ""]), encoding="utf-8")
    monkeypatch.setattr(command, "REGISTERED", tmp_path / "predictions.csv")
    monkeypatch.setattr(command, "MET", tmp_path / "predictions_met.csv")
    monkeypatch.setattr(command, "STORE", tmp_path / "store")
    monkeypatch.setattr(command, "need_committed", lambda _: None)
    monkeypatch.setattr(command.os, "nice", lambda _: None)
    met = {"covered": 1, "relative": 0.5}
    monkeypatch.setattr(command, "meet_one", lambda *_: {"trained": 0.25, **met})
    assert len(table_of(command, "predictions_met", "meet")) == 3
    # the second is lost, and trained again, otherwise; there is no time for what follows
    (tmp_path / "store" / "met" / "1.json").unlink()
    monkeypatch.setattr(command, "meet_one", lambda *_: {"trained": 0.75, **met})
    clock = iter([0, 59, 61])
    monkeypatch.setattr(command.time, "monotonic", lambda: next(clock))
    (tmp_path / "store" / "met" / "2.json").unlink()
    again = table_of(command, "predictions_met", "meet", "--minutes", "1")
    assert [(row["number"], row["trained"]) for row in again] == [
        ("0", "0.25"),
        ("1", "0.75"),
        ("2", "0.25"),
    ]


def test_a_loop_on_a_gpu_ends_with_its_work(command, monkeypatch):
    command = command("images_training")
    waited = []
    monkeypatch.setattr(command.torch.cuda, "synchronize", lambda: waited.append(True))
    for device, expected in (("cpu", []), ("cuda", [True])):
        model = torch.nn.Linear(1, 1)
        model.to = lambda _, model=model: model  # no GPU here
        command.loop(model, lambda: (), device, None)
        assert waited == expected


def test_a_table_of_all_models_has_all_of_them(command, tmp_path):
    done = CliRunner().invoke(command("zoo").main, ["--only", "DeiT", "--out", str(tmp_path / "a")])
    assert done.exit_code == 2 and "is for the table of all rows: leave out" in done.output


def test_weights_that_are_no_numbers_are_wrong(command, monkeypatch):
    command = command("zoo")
    maps = command.attention_maps

    def last_without_numbers(model, images):
        (layers,) = maps(model, images)
        layers[-1].A.fill_(math.nan)
        return (layers,)

    assert command.tried("as timm's ViT, by hand")[0]["verdict"] == "right"
    monkeypatch.setattr(command, "attention_maps", last_without_numbers)
    row, _ = command.tried("as timm's ViT, by hand")
    assert (row["verdict"], row["largest_difference"]) == ("wrong", "nan")


def test_the_command_beside_a_table_can_be_pasted(bench, monkeypatch):
    words = ["--data=/home/someone/cifar10", "--store=cells", "--arms", "two phases,default"]
    monkeypatch.setattr(sys, "argv", ["/here/starts.py", *words, "--images", "1000"])
    said = bench.command_run()
    assert shlex.split(said) == [
        *("python", "benchmarks/starts.py", "--data=FOLDER/cifar10", "--store=DIR"),
        *("--arms", "two phases,default", "--images", "1000"),
    ]
    assert "'two phases,default'" in said


def test_committed_commands_can_be_pasted():
    """Each is a script that exists, with words that are options or their values; none asks for
    help."""
    for path in sorted((ROOT / "results").glob("*.json")):
        about = json.loads(path.read_text(encoding="utf-8"))
        for command in (about["command"], *about.get("commands", [])):
            program, name, *words = shlex.split(command)
            assert program == "python" and (ROOT / name).exists(), path.name
            assert "--help" not in words, path.name
            for before, word in zip(words, words[1:], strict=False):
                one = before.startswith(("--", "[--")) or word.startswith(("--", "[--"))
                assert one, f"{path.name}: {before} {word}"
