"""Paper A's code broken on purpose: the claims say so."""

from dataclasses import replace

import pytest
import torch

from vit_theory.ledger import Run, load_claims
from vit_theory.ledger.rules import VERDICTS
from vit_theory.selection import collapse
from vit_theory.selection.experiments import attention_map, iterations, token_removal
from vit_theory.selection.experiments.engines import engine_difference
from vit_theory.selection.runs import ARMS

NOT_SHOWN = VERDICTS[2:4]  # inconclusive, or it does not hold here

CLAIMS = {claim.id: claim for claim in load_claims(["selection"])}
ONE = Run(seeds=(0,))
ON_THE_MAP = (
    "A-attention-sparse",
    "A-attention-confusion",
    "A-attention-ceiling",
    "A-attention-dead-zone",
)


@pytest.mark.parametrize("arm", ["trained", "uniform"])
def test_engines_agree_and_a_wrong_scale_in_one_is_noticed(monkeypatch, arm):
    assert max(engine_difference(6, 24, 2, 0, ARMS[arm]).values()) < 1e-10
    if arm == "trained":
        right = collapse.attend
        monkeypatch.setattr(
            collapse, "attend", lambda W_Q, W_K, rows: right(W_Q / 10**0.5, W_K, rows)
        )
    else:
        own = collapse.gradient_of
        monkeypatch.setattr(collapse, "gradient_of", lambda *given: too_large(own(*given)))
    assert engine_difference(6, 24, 2, 0, ARMS[arm])["weights"] > 1e-4


def too_large(gradient):
    """A gradient that is a thousandth too large."""

    def wrong(theta, step):
        seen, slopes = gradient(theta, step)
        return seen, {name: 1.001 * slope for name, slope in slopes.items()}

    return wrong


def test_frozen_attention_is_noticed_by_every_claim_on_the_map(monkeypatch):
    frozen = {
        arm: replace(training, multiplier=0.0) for arm, training in attention_map.TRAININGS.items()
    }
    monkeypatch.setattr(attention_map, "TRAININGS", frozen)
    data = attention_map.attention_during_training.__wrapped__(ONE)
    for judgement in (CLAIMS[id].judge(data) for id in ON_THE_MAP):
        assert judgement.verdict in NOT_SHOWN and "nothing was learned" in judgement.note


def test_claims_on_the_map_share_one_experiment():
    assert len({CLAIMS[id].experiment for id in ON_THE_MAP}) == 1
    assert CLAIMS["A-minibatches"].experiment is CLAIMS["A-attention-rate"].experiment


def test_shuffled_labels_are_noticed_by_removal(monkeypatch):
    def shuffled(*given, own=token_removal.draw_setting, **options):
        learn, judge, start = own(*given, **options)
        learn.y = learn.y[
            :, torch.randperm(learn.y.shape[1], generator=torch.Generator().manual_seed(0))
        ]
        return learn, judge, start

    monkeypatch.setattr(token_removal, "draw_setting", shuffled)
    assert CLAIMS["A-noisy-tokens"].judge(token_removal.noisy_tokens(ONE)).verdict in NOT_SHOWN


def test_a_rate_of_zero_is_noticed_by_the_iterations(monkeypatch):
    own = iterations.fit_to_convergence
    still = {"lr": 0.0, "steps": 20}
    monkeypatch.setattr(
        iterations, "fit_to_convergence", lambda *given, **options: own(*given, **options | still)
    )
    assert (
        CLAIMS["A-iterations-rate"].judge(iterations.iterations_against_rate(ONE)).verdict
        in NOT_SHOWN
    )


def test_spurious_tokens_that_do_not_follow_the_label_are_noticed(monkeypatch):
    monkeypatch.setattr(token_removal, "TRAIN_RATES", (0.5, 0.5 + 1e-9))
    assert CLAIMS["A-spurious"].judge(token_removal.spurious_patterns(ONE)).verdict in NOT_SHOWN
