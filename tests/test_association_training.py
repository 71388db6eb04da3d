"""Paper B: model, training, transfer. Contracts, gradients, identities that are dull to read in a
notebook."""

import math
from dataclasses import replace

import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import logsigmoid

from vit_theory.association import (
    Partition,
    PatchAttention,
    SpatialData,
    fit,
    idealized,
    logistic_gradient,
    realistic,
)
from vit_theory.association.claims.million_patches import apart_before, power_of_takeoff
from vit_theory.association.claims.start_and_step_size import (
    associates_late,
    by_sign,
    last_measured,
    of_second_order,
    still_falling,
)
from vit_theory.association.experiments.start_and_step_size import (
    DOUBLED,
    bold_run,
    reversed_descents,
)
from vit_theory.association.learning import convolution_score
from vit_theory.association.training_runs import Training, learn
from vit_theory.association.transfer import best_rate
from vit_theory.trials import descend


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def autograd(model, x, y):
    A, v = (p.clone().requires_grad_() for p in (model.A, model.v))
    O = model.scale * torch.einsum("ij,njd,d->ni", A.softmax(-1), x, v)
    loss = -logsigmoid(y * (O**model.power + model.nu * O).sum(1)).mean()
    return loss.detach(), *torch.autograd.grad(loss, (A, v))


@pytest.mark.parametrize(
    "power, nu, scale", [(3, 0.0, None), (3, 0.03, 1.0), (5, 0.1, None), (7, 0.2, 2.0)]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_hand_gradient(power, nu, scale, seed):
    model = PatchAttention(
        normal(7, 7, seed=seed), 0.1 * normal(5, seed=seed + 10), power, nu, scale
    )
    x = normal(30, 7, 5, seed=seed + 20)
    y = normal(30, seed=seed + 30).sign()
    for hand, auto in zip(logistic_gradient(model, x, y), autograd(model, x, y), strict=True):
        assert (hand - auto).abs().max() <= 1e-12 * max(1.0, float(auto.abs().max()))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 7),
    st.integers(1, 4),
    st.sampled_from([3, 5]),
    st.sampled_from([None, 1.0, 2.5]),
    st.integers(0, 10**6),
)
def test_the_logistic_gradient_has_its_laws(patches, dim, power, scale, seed):
    """Rows of the gradient by A sum to zero; renamed patches rename it; v grows as the power says
    (Euler)."""
    A = normal(patches, patches, seed=seed)
    v = 0.3 * normal(dim, seed=seed + 1)
    x = normal(6, patches, dim, seed=seed + 2)
    y = normal(6, seed=seed + 3).sign()
    model = PatchAttention(A, v, power, scale=scale)
    loss, dA, dv = logistic_gradient(model, x, y)
    size = 1 + float(dA.abs().max())
    assert dA.sum(1).abs().max() <= 1e-11 * size
    order = torch.randperm(patches, generator=torch.Generator().manual_seed(seed))
    renamed = logistic_gradient(
        PatchAttention(A[order][:, order], v, power, scale=scale), x[:, order], y
    )
    assert (
        abs(loss - renamed[0]) <= 1e-12 * (1 + loss)
        and (renamed[1] - dA[order][:, order]).abs().max() <= 1e-11 * size
    )
    F = model(x)
    euler = float((-y * torch.sigmoid(-y * F) * power * F).mean())
    assert abs(float(v @ dv) - euler) <= 1e-11 * (1 + abs(euler))


def small_task(dtype=torch.float64, seed=0):
    data = SpatialData(Partition.blocks(4, 2), 6, 0.4)
    draw = data.sample(200, torch.Generator().manual_seed(seed))
    start = PatchAttention(
        torch.eye(16, dtype=dtype) + 0.01 * normal(16, 16).to(dtype),
        0.05 * normal(6).to(dtype),
        nu=0.03,
    )
    return data, draw.x.to(dtype), draw.y.to(dtype), start


def test_fit_is_gradient_descent():
    _, x, y, start = small_task()
    before = start.A.clone(), start.v.clone()
    model, history = fit(start, x, y, steps=5, lr_v=1e-3, lr_A=10.0, train_diag=True)
    by_hand = start
    for step in range(5):
        loss, dA, dv = autograd(by_hand, x, y)
        assert history["loss"][0, step] == pytest.approx(float(loss), abs=1e-12)
        by_hand = replace(by_hand, A=by_hand.A - 10.0 * dA, v=by_hand.v - 1e-3 * dv)
    assert torch.allclose(model.A, by_hand.A, atol=1e-12) and torch.allclose(
        model.v, by_hand.v, atol=1e-12
    )
    assert (
        torch.equal(start.A, before[0])
        and torch.equal(start.v, before[1])
        and history["loss"].shape == (1, 6)
    )


def test_diagonal_is_frozen_unless_asked():
    _, x, y, start = small_task()
    frozen, _ = fit(start, x, y, steps=20, lr_v=1e-3, lr_A=10.0)
    trained, _ = fit(start, x, y, steps=20, lr_v=1e-3, lr_A=10.0, train_diag=True)
    assert torch.equal(frozen.A.diagonal(), start.A.diagonal()) and not torch.equal(
        trained.A.diagonal(), start.A.diagonal()
    )
    # rows of the gradient sum to zero
    assert torch.allclose(trained.A.sum(1), start.A.sum(1), atol=1e-12)


def test_the_history_has_one_loss():
    _, x, y, start = small_task()
    with pytest.raises(ValueError, match="observe gives a 'loss'"):
        fit(start, x, y, steps=1, lr_v=1e-3, lr_A=10.0, observe=lambda model: {"loss": 1.0})


def test_chained_runs_are_one_run():
    _, x, y, start = small_task()
    whole, _ = fit(start, x, y, steps=30, lr_v=1e-3, lr_A=10.0)
    half, _ = fit(start, x, y, steps=15, lr_v=1e-3, lr_A=10.0)
    half, _ = fit(half, x, y, steps=15, lr_v=1e-3, lr_A=10.0)
    assert torch.equal(whole.A, half.A) and torch.equal(whole.v, half.v)


def test_starts():
    w = torch.tensor([0.6, 0.8])
    ideal = idealized(4, w, alpha=0.1, sigma_A=2.0)
    assert (
        torch.equal(ideal.A, 2 * torch.eye(4))
        and torch.allclose(ideal.v, 0.1 * w)
        and ideal.nu == 0
    )
    one, two = (realistic(16, 5, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one.A, two.A) and torch.equal(one.v, two.v) and one.nu == 0.03


# Experiments


SMALL = Training(side=4, q=0.3, dim=4, samples=300, tests=200, steps=20, every=10, lr_A=10.0)


def test_a_run_hangs_on_its_seed_only():
    one, two, other = (learn(SMALL, seed) for seed in (0, 0, 1))
    assert one["test_error"].equals(two["test_error"]) and not one["loss"].equals(other["loss"])
    assert list(one["loss"]["step"].values) == [0, 10, 20]
    assert learn(SMALL, 0, matrices=True)["A"].shape == (3, 16, 16)


@pytest.mark.filterwarnings("error")
def test_broken_runs_are_marked_and_silent():
    run = bold_run(replace(SMALL, lr_v=1.0), 10**7, 0)
    assert bool(run["loss"].isnull()[-1]) and run["loss"].shape == (3,)
    assert float(last_measured(xr.DataArray([1.0, 2.0, math.nan], {"step": [0, 1, 2]}))) == 2.0


def test_of_two_rates_the_one_that_broke_off_loses():
    """A run that leaves the finite numbers at a low loss is not the best one."""

    def slopes(theta, step):
        x = theta["x"]
        # the second rate reaches loss 0 at once, stays, and breaks off at the last step
        beyond = -torch.inf if step == 3 else 0.0
        return {"loss": (1 - x[:, 0]).clamp(min=0)}, {"x": torch.where(x > 1.5, beyond, -1.0)}

    start = {"x": torch.zeros(2, 1, dtype=torch.float64)}
    theta, history = descend(start, slopes, steps=4, lr=torch.tensor([0.2, 2.0]))
    assert history.finite.tolist() == [True, False]
    assert best_rate(theta, history)["x"].item() == pytest.approx(0.8)


def test_a_convolution_hears_its_neighbors_and_nothing_beyond_the_rim():
    generator = torch.Generator().manual_seed(0)
    x, kernel, v = (
        torch.randn(*shape, generator=generator).double() for shape in ((2, 9, 4), (3, 3), (4,))
    )
    total = torch.zeros(2).double()
    for row in range(3):
        for column in range(3):
            O = torch.zeros(2).double()
            for down in (-1, 0, 1):
                for right in (-1, 0, 1):
                    if 0 <= row + down < 3 and 0 <= column + right < 3:
                        patch = 3 * (row + down) + column + right
                        O += kernel[down + 1, right + 1] * (x[:, patch] @ v)
            total += O**3 + 0.03 * O
    torch.testing.assert_close(convolution_score(x, kernel, v), total)


def paths(**values):
    """Paths with these values at steps 0, 5 and 10, for two diagonals."""
    data = {name: (("kappa_0", "step"), value) for name, value in values.items()}
    return xr.Dataset(data, {"kappa_0": [-1.0, 1.0], "step": [0, 5, 10]}).assign(linear=0.1)


def test_diagonals_are_read_at_half_of_the_run_and_at_its_end():
    data = paths(
        gamma=[[0.0, 0.0, 0.3], [0.0, 1.0, 2.0]],
        rho=[[0.0, 0.1, 0.1], [0.0, -0.5, -0.5]],
        kappa=[[-1.0] * 3, [1.0] * 3],
        error=[[0.1, 0.09, 0.05], [0.1, 0.02, 0.01]],
        loss=[[0.7, 0.4, 0.3], [0.7, 0.1, 0.1]],
    )
    assert associates_late(by_sign(data, 1)).values.tolist() == [[True, True]]
    assert not associates_late(by_sign(data, -1)).any()  # kappa < rho
    assert not associates_late(by_sign(data.assign(error=data.error + 0.1), 1)).any()
    assert still_falling(data).values == pytest.approx([0.25])
    assert reversed_descents(data.isel(step=1), 0.1).values.tolist() == [True, False]
    assert not reversed_descents(data.isel(step=1), 0.05).any()


def test_what_is_of_second_order_doubles_with_the_diagonal():
    once, twice = DOUBLED
    tiny = xr.DataArray(
        [-once, once, -twice, twice], dims="tiny", coords={"tiny": [-once, once, -twice, twice]}
    )
    response = xr.DataArray([0.0] + [1.0] * 30, dims="step")
    for power, ratio in ((1, 1), (2, 2), (3, 4)):
        pull = tiny * response * (1 + 3 * abs(tiny) ** (power - 1))
        data = xr.Dataset({"population": pull, "response": response}, {"step": range(31)})
        assert of_second_order(data).values == pytest.approx([ratio, ratio])


def test_the_power_of_the_takeoff_and_the_path_before_it():
    gamma = [[[0.0, 0.1, 0.2, 1.0]], [[0.0, 0.1, 0.2, 4.0]], [[0.0, 0.1, 0.3, 9.0]]]
    data = xr.Dataset(
        {
            "takeoff": (("patches", "seed"), [[4.0], [40.0], [400.0]]),
            "gamma": (("patches", "seed", "step"), gamma),
        },
        {"patches": [10, 100, 1000]},
    )
    assert power_of_takeoff(data).value == pytest.approx(1)
    assert apart_before(data) == pytest.approx(1.5)  # at step 2, half of 4
