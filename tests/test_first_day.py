"""What people hand over on their first day: refused with the argument, its value and the remedy, as users run it."""

import subprocess
import sys

import pytest

PRELUDE = """
import torch
from vit_theory.association import *
from vit_theory import association as B, selection as A
p = Partition.blocks(4, 2)
d = SpatialData(p, 8, 0.1)
s = d.sample(20, generator=torch.Generator().manual_seed(0))
m = PatchAttention(torch.zeros(16, 16), torch.ones(8))
t = A.TokenData().sample(4, generator=torch.Generator().manual_seed(0))
v = A.initial_model(t.mu)
x, y = s.x, s.y
descent = dict(alpha=0.05, kappa=1.5, steps=5, lr_v=1e-3, lr_A=1.0)
"""
REFUSED = {
    "SpatialData(None, 8, 0.1)": "partition=None",
    "SpatialData([[0, 1], [2, 3]], 8, 0.1)": "or Partition(sets) with your own",
    "SpatialData(p, 2.5, 0.1)": "dim=2.5",
    "SpatialData(p, 8, None)": "q=None",
    "SpatialData(p, 8, 0.1, sigma=abs)": "sigma=<built-in function abs> must be a finite number",
    "GaussianData(None, 3)": "partition=None",
    "A.TokenData(noise=abs)": "noise=<built-in function abs> must be finite",
    "A.TokenData(noise=None)": "noise=None must be finite",
    "A.TokenData(spurious_rate='high')": "spurious_rate=high",
    "d.sample(-1)": "n=-1 must be a whole number",
    "d.sample(2.5)": "n=2.5 must be a whole number",
    "d.sample(3, generator=0)": "generator=0 is none: give torch.Generator()",
    "d.label_function(x * float('nan'))": "x has NaN or inf in 20 of 20 images",
    "d.label_function(x[None])": "x has shape (1, 20, 16, 8); these images are [n, D=16, d=8]",
    "d.label_function(x[:, :5])": "x has shape (20, 5, 8)",
    "d.label_function(x.tolist())": "is a list; give a tensor",
    "error_rate(y, (y + 1) / 2)": "not 0; of 0 and 1, 2 * y - 1 makes them",
    "error_rate(y[:, None], y)": "score has shape (20, 1); give one number for each image",
    "error_rate(y, y[:5])": "for each of the 20 images; it has shape (5,)",
    "error_rate(y[:0], y[:0])": "score has shape (0,)",
    "error_rate((1.0, 2.0), (1.0, 1.0))": "score=(1.0, 2.0) is a tuple; give a tensor",
    "logistic_gradient(m, x, (y + 1) / 2)": "2 * y - 1 makes them",
    "logistic_gradient(m, x, y[:5])": "it has shape (5,)",
    "logistic_gradient(m, x[:, :5], y)": "this model takes [n, D=16, d=8]",
    "logistic_gradient(None, x, y)": "model=None must be a PatchAttention",
    "fit(None, x, y, steps=1, lr_v=1, lr_A=1)": "model=None must be a PatchAttention",
    "fit(m, x, y, steps=1, lr_v=(1,), lr_A=1)": "lr_v=(1,) must be a finite number",
    "regression_error(16, 4, 0.1, train=-1)": "train=-1 must be a whole number, at least 2",
    "regression_error(16, 4, 0.1, test=0)": "test=0 must be a whole number, at least 1",
    "regression_error(16, 4, 0.1, seed=-1)": "seed=-1",
    "PatchAttention(((0.0, 1.0), (1.0, 0.0)), (1.0, 1.0))": "A=((0.0, 1.0), (1.0, 0.0)) is a tuple; give a tensor",
    "m(x.tolist())": "is a list; give a tensor",
    "association(None, p)": "scores=None is a NoneType; give a tensor",
    "association(torch.zeros(4, 4), None)": "partition=None",
    "set_mass([[0.0]], p)": "A=[[0.0]] is a list; give a tensor",
    "sort_by_set(torch.zeros(4, 4), p)": "the partition has D=16 patches",
    "set_attention([0, 0, 1, 1], 1.0)": "label=[0, 0, 1, 1] is a list",
    "shift_attention(None, 1.0)": "partition=None",
    "chance(None)": "partition=None",
    "idealized(16, (1.0, 0.0))": "feature=(1.0, 0.0) is a tuple",
    "realistic(0, 3)": "patches=0",
    "realistic(4, 3, noise=-1)": "noise=-1 must be a finite number >= 0",
    "reduced_descent(16, 4, 0.1, **descent | {'lr_v': None})": "lr_v=None must be a finite number",
    "reduced_descent(16, 4, 0.1, **descent | {'alpha': (0.05,)})": "alpha=(0.05,) must be a finite number",
    "scaled_rates(2.5)": "patches=2.5 must be a whole number",
    "plot_partitions(p)": "give [partition] or {name: partition}",
    "plot_partitions({})": "partitions={} is empty",
    "plot_partitions([None])": "partitions[0]=None",
    "plot_scores([m.A])": "plot_scores({'A': model.A})",
    "A.attention_mass(v, None)": "data=None must be a TokenSample, as `TokenData.sample` draws it",
    "A.attention_mass(None, t)": "model=None must be a ShallowViT",
    "A.evaluate(v, (t.x, t.y))": "must be a TokenSample",
    "A.hinge_gradient(v, (1,), t.y)": "x=(1,) is a tuple; give a tensor",
    "A.fit(v, t.x, (1,), steps=1, batch=2, lr=1.0)": "y=(1,) is a tuple; give a tensor",
    "A.ShallowViT((1,), v.W_K, v.W_V, v.W_O, v.a)": "W_Q=(1,) is a tuple; give a tensor",
    "A.initial_model(t.mu, sigma=None)": "sigma=None must be a finite number",
}


@pytest.fixture(scope="module")
def said():
    """What each call says in a program of its own: in these tests the check of types would come first."""
    lines = [PRELUDE]
    for call in REFUSED:
        lines += ["try:", f"    {call}", "    print('accepted')"]
        lines += ["except (ValueError, TypeError) as error:", "    print(*str(error).splitlines())"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(zip(REFUSED, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_wrong_is_named(said, call):
    assert REFUSED[call] in said[call], said[call]


def test_what_is_meant_is_taken():
    """One partition in a list; scores as nested lists; learning at a size where rates by guessing give nothing."""
    from vit_theory.association import Partition, association, plot_partitions, reduced_descent, scaled_rates

    p = Partition([[0, 1], [2, 3]])
    assert len(plot_partitions([p, p]).axes) == 2
    assert association((p.label[:, None] == p.label).float(), p).exact
    path = reduced_descent(4096, 4, 10 / 4096, **scaled_rates(4096), steps=300, method="monte_carlo", draws=1000)
    assert path.error[0] > 0.1 and path.error[-1] < 0.01
    guess = {"alpha": 0.05, "kappa": 1.5, "lr_v": 1e200, "lr_A": 1.0}
    with pytest.warns(RuntimeWarning, match=r"scaled_rates\(4096\)"):
        reduced_descent(4096, 4, 10 / 4096, **guess, steps=300, method="monte_carlo", draws=100)
