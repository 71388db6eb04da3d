"""What people hand over on their first day: taken where it is clear what is meant."""


import pytest


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
