"""Break the code on purpose, and see which claims of the ledger notice.

    \b
    python tests/faults.py --store DIR [--only NAME ...] [--room selection ...]

Each fault runs in a process of its own, against the claims and tests that should notice it, claims
at quick scale with seeds 0 to 2. A claim notices when its verdict is another than the committed
one, or when it ends in `Broken`; any other error only says that the code does not run with the
fault, and does not count. A claim that does not hold with and without the fault notices when it
gives another reason: its sentence and note, numbers aside. A test notices when it fails. DIR keeps
what is finished, so that an interrupted run goes on, and what is added to a fault is run alone.
Writes results/faults.csv (fault x claim or test: verdict before and after), and
results/faults.json. `--only NAME --here` breaks the code in this process and prints what was seen.
"""

import csv
import dataclasses
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click

from vit_theory.ledger.rules import AGAINST, INCONCLUSIVE

RESULTS = Path(__file__).resolve().parent.parent / "results"
NOT_SHOWN = (INCONCLUSIVE, AGAINST)  # verdicts that have a reason


@dataclasses.dataclass
class Fault:
    """One way to be wrong."""

    name: str
    room: str
    says: str  # what is wrong, in a sentence
    watchers: list[str]  # ids of rows, and tests as pytest names them: what should notice
    apply: Callable[[], None]


FAULTS: dict[str, Fault] = {}


def breaks(room: str, rows: str, tests: str = ""):
    """Register a function that breaks something in a room; its docstring says what. Tests:
    "tests/test_x.py::test_y ..."."""

    def register(function):
        name = f"{room}/{function.__name__.strip('_').replace('_', '-')}"
        FAULTS[name] = Fault(
            name, room, " ".join(function.__doc__.split()), rows.split() + tests.split(), function
        )
        return function

    return register


def modules(room: str = ""):
    """All modules of a room, imported."""
    package = importlib.import_module(f"vit_theory.{room}".rstrip("."))
    # of the root its own modules alone
    below = pkgutil.walk_packages if room else pkgutil.iter_modules
    inner = [
        importlib.import_module(found.name)
        for found in below(package.__path__, f"{package.__name__}.")
    ]
    return [package, *(module for module in inner if not module.__name__.endswith("_modidx"))]


def swap(room: str, name: str, make: Callable) -> None:
    """Put make(original) in the place of a function or class of a room, wherever the package has
    bound it."""
    chapters = ("", "selection", "association", "convolution", "models", "images", "together")
    rooms = [module for chapter in chapters for module in modules(chapter)]
    own = f"vit_theory.{room}".rstrip(".")
    holders = [
        m
        for m in rooms
        if m.__name__.startswith(own)
        and getattr(vars(m).get(name), "__module__", "").startswith(own)
    ]
    if not holders:
        raise LookupError(f"nothing in {own} is called {name}: the fault has to be mended")
    original = vars(holders[0])[name]
    replacement = make(original)
    for module in rooms:
        for bound in [key for key, value in vars(module).items() if value is original]:
            setattr(module, bound, replacement)


def swap_method(room: str, cls: str, name: str, make: Callable) -> None:
    """The same for a method."""
    for module in modules(room):
        if isinstance(owner := vars(module).get(cls), type):
            setattr(owner, name, make(getattr(owner, name)))
            return
    raise LookupError(f"nothing in {room} is called {cls}: the fault has to be mended")


def around(change: Callable) -> Callable:
    """What swaps a function for one that hands change(original, *its arguments) out."""

    def make(original):
        def changed(*args, **options):
            return change(original, *args, **options)

        return changed

    return make


def with_arguments(**forced):
    """A wrapper that forces keyword arguments."""

    def change(original, *args, **options):
        return original(*args, **{**options, **forced})

    return around(change)


def half_turned(y):
    """Labels of which two in four are turned, along the last dimension."""
    y = y.clone()
    y[..., ::4] *= -1
    y[..., 1::4] *= -1
    return y


# Paper A
# ------------------------------------------------------------------------------------------------


@breaks(
    "selection",
    "A-sample-complexity A-attention-sparse A-phase-diagram A-attention-rate A-minibatches",
)
def uniform_for_trained():
    """Both trainers ignore attention where it is to be trained."""

    def train(original, *args, **options):
        return original(*args, **{**options, "attention": "uniform"})

    swap("selection", "fit", around(train))
    swap("selection", "fit_collapsed", around(train))


@breaks(
    "selection",
    "A-sample-complexity A-attention-sparse A-attention-dead-zone A-attention-confusion "
    "A-attention-eta A-attention-direction",
)
def attention_frozen():
    """Queries and keys have the learning rate 0."""
    swap("selection", "fit", with_arguments(attention_lr=0.0))
    swap("selection", "fit_collapsed", with_arguments(attention_lr=0.0))


@breaks("selection", "A-two-engines")
def scale_in_the_token_engine():
    """The token engine divides the logits by sqrt(d)."""

    def make(original):
        def products(W):
            A, M = original(W)
            return A / W["W_Q"].shape[2] ** 0.5, M

        return products

    swap("selection", "weight_products", make)


@breaks("selection", "A-two-engines A-sample-complexity")
def scale_in_the_collapsed_engine():
    """The collapsed engine divides the logits by sqrt(d)."""

    def make(original):
        def attend(W_Q, W_K, rows):
            factor = W_Q.shape[1] ** -0.25
            return original(W_Q * factor, W_K * factor, rows)

        return attend

    swap("selection", "attend", make)


def _sampled(change):
    """Change what TokenData draws."""

    def sample(original, self, *args, **options):
        return change(original(self, *args, **options))

    swap_method("selection", "TokenData", "sample", around(sample))


@breaks(
    "selection",
    "A-noise A-iterations-alpha A-iterations-rate A-attention-sparse A-sparsification "
    "A-spurious A-noisy-tokens",
)
def labels_shuffled():
    """Half of the labels are turned, whatever the tokens say."""

    _sampled(lambda sample: dataclasses.replace(sample, y=half_turned(sample.y)))


def _with_noise(factor):
    def make(original):
        def sample(self, *args, **options):
            data = dataclasses.replace(
                self, noise=self.noise * factor, noisy_noise=self.noisy_noise * factor
            )
            return original(data, *args, **options)

        return sample

    swap_method("selection", "TokenData", "sample", make)


@breaks("selection", "A-noise A-noisy-tokens")
def noise_off():
    """Tokens carry no noise."""
    _with_noise(0.0)


@breaks("selection", "A-noise")
def noise_per_coordinate():
    """The noise level counts per coordinate, sqrt(d) too large."""
    _with_noise(10**0.5)


@breaks(
    "selection",
    "A-iterations-alpha A-iterations-rate A-noise A-attention-sparse A-attention-eta "
    "A-attention-confusion A-attention-direction A-noisy-samples",
)
def learning_rate_zero():
    """The token trainer does not move."""
    swap("selection", "fit", with_arguments(lr=0.0, attention_lr=0.0))


@breaks(
    "selection",
    "A-no-attention A-mechanism A-phase-diagram A-initial-sigma A-initial-delta A-regime "
    "A-attention-rate A-minibatches A-limit-width A-learning-curves",
)
def learning_rate_zero_collapsed():
    """The collapsed trainer does not move (for twenty steps: nothing would ever stop it)."""
    swap("selection", "fit_collapsed", with_arguments(lr=0.0, attention_lr=0.0, steps=20))


@breaks("selection", "A-sparsification")
def least_attended_kept():
    """The tokens with least attention are kept."""

    def received_attention(original, *args, **options):
        return -original(*args, **options)

    swap("selection", "received_attention", around(received_attention))


@breaks("selection", "A-sparsification")
def received_by_row():
    """The attention that a token gives is summed, in place of what it receives: the same for all
    tokens."""

    def received_attention(original, *args, **options):
        return 0 * original(*args, **options) + 1

    swap("selection", "received_attention", around(received_attention))


@breaks("selection", "A-sparsification A-noisy-tokens A-noisy-samples")
def oracle_at_random():
    """The oracle keeps tokens at random."""
    from vit_theory.selection import keep_random

    swap("selection", "keep_oracle", lambda original: keep_random)


@breaks(
    "selection",
    "A-two-engines",
    "tests/test_selection_collapse.py::test_trained_weights_agree_after_many_steps",
)
def queries_for_keys():
    """The slopes of W_Q and W_K are exchanged."""

    def make(original):
        def step(works, W):
            metrics, slopes = original(works, W)
            return metrics, {**slopes, "W_Q": slopes["W_K"], "W_K": slopes["W_Q"]}

        return step

    swap("selection", "hinge_step", make)


@breaks("selection", "A-initial-sigma")
def sigma_ignored():
    """The error of the initial values is 0, whatever sigma says."""
    swap("selection", "initial_model", with_arguments(sigma=0.0))


@breaks("selection", "A-initial-delta")
def delta_ignored():
    """The error of the initial queries and keys is 0, whatever delta says."""
    swap("selection", "initial_model", with_arguments(delta=0.0))


@breaks("selection", "A-no-attention A-initial-sigma A-mechanism A-regime")
def backgrounds_balanced():
    """Every kind of sample is drawn equally often: no chance imbalance of backgrounds."""

    def make(original):
        def draw_weights(*args, **options):
            weights = original(*args, **options)
            return weights * 0 + 1 / weights.shape[-1]

        return draw_weights

    swap("selection", "draw_weights", make)


@breaks("selection", "A-spurious")
def spurious_at_random():
    """Spurious tokens agree with the label half of the time."""

    def make(original):
        def sample(self, *args, **options):
            options["spurious_rate"] = None
            return original(dataclasses.replace(self, spurious_rate=0.5), *args, **options)

        return sample

    swap_method("selection", "TokenData", "sample", make)


@breaks("selection", "A-attention-ceiling")
def mass_counts_confusion():
    """The attention on tokens of the other class counts as relevant."""
    swap_method(
        "selection",
        "TokenSample",
        "relevant",
        lambda original: property(lambda self: self.pattern <= 1),
    )


@breaks("selection", "A-attention-ceiling")
def ceiling_without_confusion():
    """The ceiling of the attention mass is 1."""

    def mass_ceiling(original, *args, **options):
        return 0 * original(*args, **options) + 1

    swap("selection", "mass_ceiling", around(mass_ceiling))


@breaks("selection", "A-attention-dead-zone A-iterations-alpha")
def hinge_without_dead_zone():
    """Samples with a margin above 1 keep pushing."""
    import torch

    def make(original):
        def backward(work, A, M, batch):
            y = work.samples.y
            margin = original(work, A, M, batch)[0]
            work.samples.y = torch.sign(y) * 1e-3  # so small that no margin reaches 1
            try:
                _, dA, dM = original(work, A, M, batch)
            finally:
                work.samples.y = y
            return margin, dA * 1e3, dM * 1e3

        return backward

    swap("selection", "backward", make)


@breaks(
    "selection",
    "A-mechanism",
    "tests/test_selection_collapse.py::test_imbalances_are_those_of_drawn_training_sets",
)
def imbalance_too_small():
    """The imbalance of backgrounds is a quarter of what it is."""

    def imbalances(original, *args, **options):
        return original(*args, **options) / 4

    swap("selection", "imbalances", around(imbalances))


@breaks("selection", "A-attention-confusion")
def confusion_left_out():
    """No confusion tokens are drawn."""

    def sample(original, self, *args, **options):
        return original(dataclasses.replace(self, confusion=0), *args, **options)

    swap_method("selection", "TokenData", "sample", around(sample))


@breaks("selection", "A-mechanism A-sample-complexity")
def slower_attention():
    """Attention learns 12 times faster than the rest, not 50 times."""
    from vit_theory.selection.runs import ARMS

    ARMS["trained"] = dataclasses.replace(ARMS["trained"], ratio=12.0)


@breaks(
    "selection",
    "A-minibatches",
    "tests/test_selection_collapse.py::test_minibatches_are_the_training_set",
)
def same_minibatch_again():
    """Every step takes the first minibatch."""

    def make(original):
        def again(self):
            if "first" not in vars(self):
                self.first = original(self)
            return self.first

        return again

    swap_method("selection", "Minibatches", "next", make)


@breaks(
    "selection",
    "A-no-attention",
    "tests/test_selection_collapse.py::test_trained_weights_agree_after_many_steps",
)
def frozen_is_uniform():
    """Attention that is frozen at its start is taken for uniform."""

    def make(original):
        def fit_collapsed(*args, attention="trained", **options):
            return original(
                *args, attention="uniform" if attention == "frozen" else attention, **options
            )

        return fit_collapsed

    swap("selection", "fit_collapsed", make)


@breaks("selection", "A-limit A-limit-phase A-limit-logarithm A-initial-border A-learning-curves")
def attention_still_in_the_limit():
    """Queries and keys do not move in the early limit."""

    def make(original):
        def velocity(*args):
            still = ("W_Q", "W_K")
            return {name: rate * (name not in still) for name, rate in original(*args).items()}

        return velocity

    swap("selection", "velocity", make)


@breaks("selection", "A-limit A-limit-phase A-limit-logarithm A-learning-curves")
def balanced_in_the_limit():
    """The early limit has every kind of sample equally often."""

    def draw_shares(original, kinds, *rest):
        return original(kinds, *rest) * 0 + 1 / len(kinds.y)

    swap("selection", "draw_shares", around(draw_shares))


@breaks("selection", "A-limit-width")
def width_ignored():
    """All networks that are compared with the wide limit have 64 neurons."""

    def make(original):
        def margins_at_stop(alpha, w, setting, seed, neurons):
            return original(alpha, w, setting, seed, min(neurons, 64))

        return margins_at_stop

    swap("selection", "margins_at_stop", make)


@breaks(
    "selection",
    "",
    "tests/test_selection_limit.py::test_the_kernel_of_equal_and_of_opposite_inputs",
)
def kernel_without_its_turn():
    """The gradient of the wide limit lacks the neurons whose gates turn: it is that of a linear
    layer."""

    def make(original):
        def wide_output(seen, c, z):
            slope = (c[:, None] @ seen / 2).expand_as(z)
            return (slope * z).sum(-1), slope

        return wide_output

    swap("selection", "wide_output", make)


@breaks("selection", "A-initial-border")
def starts_without_error():
    """Starts at infinitely many samples have no error, whatever sigma says."""
    swap("selection", "initial_model", with_arguments(sigma=0.0, delta=0.0))


# Paper B
# ------------------------------------------------------------------------------------------------


def _coefficients(change):
    """Change the labels, signal sets and coefficients that are drawn: change(partition, y, signal,
    c) -> (y, signal, c)."""

    def draw_coefficients(original, p, q, n, g=None):
        return change(p, *original(p, q, n, g))

    swap("association", "draw_coefficients", around(draw_coefficients))


@breaks("association", "B-theorem-4.2 B-contiguity")
def marks_shared_within_a_set():
    """The random marks are drawn once a set, not once a patch."""
    import torch

    def change(partition, y, signal, c):
        first = c[:, partition.sets[:, 0]][:, partition.label]
        return y, signal, torch.where(partition.label == signal[:, None], y[:, None], first)

    _coefficients(change)


@breaks(
    "association", "B-theorem-4.2 B-finite-sample-early B-theorem-4.1-sample B-scatter-response"
)
def twice_as_many_marks():
    """A patch is marked with probability 2q."""

    def draw_coefficients(original, p, q, n, g=None):
        return original(p, min(2 * q, 1), n, g)

    swap("association", "draw_coefficients", around(draw_coefficients))


@breaks("association", "B-q-trained B-scatter-response")
def no_marks():
    """No patch outside of the signal set is marked."""

    def draw_coefficients(original, p, q, n, g=None):
        return original(p, 0.0, n, g)

    swap("association", "draw_coefficients", around(draw_coefficients))


@breaks(
    "association",
    "",
    tests="tests/test_association_foundations.py::test_noise_never_touches_the_feature",
)
def noise_off_in_patches():
    """Patches carry no noise."""

    def draw_noise(original, n, D, s, f, g=None):
        return 0 * original(n, D, s, f, g)

    swap("association", "draw_noise", around(draw_noise))


@breaks("association", "B-theorem-4.2 B-finite-sample-early")
def noise_on_the_feature():
    """The noise is not at right angles to the feature: it touches the label."""
    import torch

    def make(original):
        def draw(n, patches, sigma, feature, generator=None):
            return sigma * torch.randn(
                n, patches, len(feature), generator=generator, dtype=feature.dtype
            )

        return draw

    swap("association", "draw_noise", make)


@breaks(
    "association",
    "B-theorem-4.2 B-theorem-4.1-sample B-contiguity B-sample-size B-symmetry-late "
    "B-long-training B-non-associating",
)
def patches_labels_shuffled():
    """Half of the labels are turned."""

    _coefficients(lambda partition, y, signal, c: (half_turned(y), signal, c))


@breaks(
    "association", "B-reduced-dynamics B-finite-sample-early B-million-patches B-diagonal-response"
)
def preconditioner_forgotten():
    """The learning rates of gamma and rho lack the numbers of entries that they stand for."""

    def make(original):
        def preconditioned(patches, size, lr_v, lr_A, train_diag=False):
            rates = original(patches, size, lr_v, lr_A, train_diag)
            return {**rates, "gamma": lr_A / patches**2, "rho": lr_A / patches**2}

        return preconditioned

    swap("association", "preconditioned", make)


@breaks(
    "association",
    "B-theorem-4.1 B-diagonal-start B-q-ablation B-bold-steps B-million-patches B-growing-sets",
)
def no_diagonal_at_the_start():
    """Reduced descents start without the diagonal, kappa = 0."""

    def descend_scalars(original, output, weight, start, *args, **options):
        return original(output, weight, {**start, "kappa": 0 * start["kappa"]}, *args, **options)

    swap("association", "descend_scalars", around(descend_scalars))


@breaks(
    "association",
    "B-theorem-4.2 B-contiguity B-sample-size B-theorem-5.1 B-sigma-A-ablation B-bold-training "
    "B-growing-sets",
)
def no_diagonal_in_training():
    """Trained models start without the diagonal, sigma_A = 0."""
    swap("association", "realistic", with_arguments(sigma_A=0.0))


@breaks(
    "association",
    "B-theorem-4.2 B-finite-sample-early B-theorem-4.1-sample B-long-training B-symmetry-late "
    "B-sigma-A-ablation "
    "B-bold-training B-non-associating B-q-trained B-scatter-response B-diagonal-response",
)
def attention_does_not_move():
    """A is not trained."""
    swap("association", "fit", with_arguments(lr_A=0.0))


@breaks("association", "B-theorem-4.2 B-finite-sample-early")
def values_do_not_move():
    """v is not trained."""
    swap("association", "fit", with_arguments(lr_v=0.0))


@breaks("association", "B-theorem-4.1 B-million-patches B-bold-steps B-q-ablation B-diagonal-start")
def reduced_attention_does_not_move():
    """Reduced descents leave the logits where they are."""

    def make(original):
        def preconditioned(*args, **options):
            return {
                name: rate if name == "alpha" else 0.0
                for name, rate in original(*args, **options).items()
            }

        return preconditioned

    swap("association", "preconditioned", make)


@breaks("association", "B-reduced-dynamics B-finite-sample-early B-diagonal-response")
def temperature_in_the_reduced_softmax():
    """The reduced dynamics halve the logits in the softmax."""

    def mixing(original, alpha, kappa, gamma, rho, *args):
        return original(alpha, kappa / 2, gamma / 2, rho / 2, *args)

    swap("association", "mixing", around(mixing))


@breaks("association", "B-reduced-dynamics B-theorem-4.1 B-theorem-3.2 B-bold-steps")
def law_of_types_wrong():
    """All types of sets are equally likely."""

    def type_law(original, *args):
        return original(*args) * 0 + 1 / len(original(*args))

    swap("association", "type_law", around(type_law))


@breaks("association", "B-reduced-dynamics B-theorem-4.1 B-theorem-3.2 B-bold-steps")
def signal_set_missing():
    """The signal set is left out of the population."""

    def with_signal(original, counts, size):
        return counts

    swap("association", "with_signal", around(with_signal))


@breaks("association", "B-theorem-4.2 B-contiguity")
def association_of_another_partition():
    """Association is scored against the sets of a random partition."""

    def make(original):
        def association(scores, partition):
            return original(scores, type(partition).random(partition.D, partition.L, seed=99))

        return association

    swap("association", "association", make)


@breaks("association", "B-theorem-4.2 B-non-associating")
def association_always_exact():
    """Every matrix of scores is said to associate."""

    def make(original):
        def association(scores, partition):
            found = original(scores, partition)
            return dataclasses.replace(found, exact=True, margin=1.0, keep=1.0, drop=1.0)

        return association

    swap("association", "association", make)


@breaks("association", "B-theorem-3.1 B-equal-weights")
def linear_error_without_ties():
    """The error of linear rules is half of what it is."""

    def make(original):
        def linear_error(*args, **options):
            found = original(*args, **options)
            return type(found)(*(value / 2 for value in found))

        return linear_error

    swap("association", "linear_error", make)


@breaks("association", "B-theorem-3.1")
def half_as_many_marks_in_the_law():
    """The exact law of the marks is that of q/2."""

    def mark_law(original, n, q):
        return original(n, q / 2)

    swap("association", "mark_law", around(mark_law))


@breaks("association", "B-theorem-3.2-repaired")
def logits_transposed():
    """The logits of positional attention have queries and keys exchanged."""

    def position_logits(original, P, W_Q, W_K):
        return original(P, W_Q, W_K).T.contiguous()

    swap("association", "position_logits", around(position_logits))


@breaks("association", "B-theorem-3.2 B-theorem-3.2-repaired")
def shift_is_no_shift():
    """The witness of Theorem 3.2 attends to its own set."""

    def make(original):
        def shift_attention(partition, beta):
            return beta * (partition.label[:, None] == partition.label[None, :]).float()

        return shift_attention

    swap("association", "shift_attention", make)


@breaks("association", "B-theorem-4.2")
def error_always_zero():
    """No error is ever counted."""

    def error_rate(original, score, y):
        return 0.0

    swap("association", "error_rate", around(error_rate))


@breaks("association", "B-theorem-5.1")
def pretraining_learns_nothing():
    """The attention that is transferred was not trained."""

    def pretrain(original, data, generator, samples, steps, lr_A, *rest, **options):
        return original(data, generator, samples, 1, lr_A, *rest, **options)

    swap("association", "pretrain", around(pretrain))


@breaks("association", "B-theorem-5.1")
def same_feature_in_both_tasks():
    """The new task has the feature of the old one."""

    def make(original):
        return lambda self, partition, dim, q, sigma=None, feature=None: original(
            self, partition, dim, q, sigma, None
        )

    swap_method("association", "SpatialData", "__init__", make)


@breaks("association", "B-contiguity")
def all_sets_contiguous():
    """Strided and random partitions come out as rows of neighbors."""

    def make(original):
        import torch

        def partition(patches, sets, *seed):
            return torch.arange(patches).view(sets, -1)

        return partition

    swap("association", "strided_sets", make)
    swap("association", "random_sets", make)


@breaks("association", "B-figure-2 B-figure-2-vit")
def gaussian_labels_shuffled():
    """Half of the labels of Gaussian data are turned."""

    def make(original):
        def sample(self, *args, **options):
            found = original(self, *args, **options)
            return dataclasses.replace(found, y=half_turned(found.y))

        return sample

    swap_method("association", "GaussianData", "sample", make)


@breaks("association", "B-figure-2 B-figure-2-vit")
def gaussian_labels_linear():
    """The labels of Gaussian data lack the cube: a linear rule never errs."""

    def label_function(original, self, x):
        return (x @ self.feature).sum(-1)

    swap_method("association", "GaussianData", "label_function", around(label_function))


@breaks("association", "B-equal-weights B-reduced-dynamics B-scatter-response")
def one_signal_set_in_the_list():
    """The list of all images holds those of the first signal set alone."""

    def make(original):
        def all_images(partition, q):
            c, p = original(partition, q)
            first = len(p) // partition.L
            return c[:first], p[:first] * partition.L

        return all_images

    swap("association", "all_images", make)


# Paper C
# ------------------------------------------------------------------------------------------------


@breaks("convolution", "C-theorem-1 C-corollary-4 C-corollary-3 C-border")
def sink_missing():
    """Zero padding without the zero key: border queries look at every patch."""

    def make(original):
        def convert(*args, **options):
            layer = original(*args, **options)
            return (
                layer
                if isinstance(layer, tuple) or not getattr(layer, "sink", False)
                else _without_sink(layer)
            )

        return convert

    swap("convolution", "conv_to_attention", make)


def _without_sink(layer):
    """The layer with its zero key taken away."""
    layer.sink = False
    return layer


@breaks("convolution", "C-theorem-1 C-corollary-4 C-corollary-3 C-absolute")
def offsets_transposed():
    """Rows and columns of the offsets are exchanged."""

    def make(original):
        def blocks(*args, **options):
            offsets, T = original(*args, **options)
            return [offset[::-1] for offset in offsets], T

        return blocks

    swap("convolution", "transfer_blocks", make)


def _kernel(change):
    """Change what the construction reads as the kernel."""

    def dense_kernel(original, *args, **options):
        return change(original(*args, **options))

    swap("convolution", "dense_kernel", around(dense_kernel))


@breaks(
    "convolution",
    "C-theorem-1 C-corollary-4 C-corollary-3 C-dilation C-stride C-border C-extra-head",
)
def kernel_flipped():
    """Convolution in the sense of signal processing: the kernel is turned around."""
    _kernel(lambda kernel: kernel.flip(-1).flip(-2))


@breaks("convolution", "C-theorem-1 C-corollary-4 C-stride C-absolute")
def kernel_transposed():
    """Rows and columns of the kernel are exchanged."""
    _kernel(lambda kernel: kernel.transpose(-1, -2))


@breaks("convolution", "C-theorem-1 C-corollary-4")
def one_head_less():
    """The last head of the construction is left out."""

    def make(original):
        def blocks(*args, **options):
            offsets, T = original(*args, **options)
            return (offsets[:-1], T[:-1]) if len(offsets) > 1 else (offsets, T)

        return blocks

    swap("convolution", "transfer_blocks", make)


@breaks("convolution", "C-theorem-1 C-stride C-dilation C-absolute")
def padding_moved():
    """The construction pads one pixel less above and on the left, one more below and on the
    right."""

    def make(original):
        def conv_padding(conv):
            top, bottom, left, right = original(conv)
            return (
                (top - 1, bottom + 1, left - 1, right + 1)
                if top and left
                else (top, bottom, left, right)
            )

        return conv_padding

    swap("convolution", "conv_padding", make)


@breaks("convolution", "C-finite-logits C-lemma-2")
def half_the_gap():
    """A finite logit gap M is built as M / 2."""

    def conv_to_attention(original, conv, image_size, patch, scale=None):
        return original(conv, image_size, patch, scale if scale is None else scale / 2)

    swap("convolution", "conv_to_attention", around(conv_to_attention))


@breaks("convolution", "C-extra-head")
def extra_head_too_weak():
    """The extra head subtracts half of what strays."""

    def make(original):
        def extra_head(*args, **options):
            heads = original(*args, **options).clone()
            heads[-1] /= 2
            return heads

        return extra_head

    swap("convolution", "extra_head", make)


def _count(change):
    """Change the minimal number of heads."""

    def make(original):
        def minimum_heads(*args, **options):
            found = original(*args, **options)
            # past its own check, which knows that this cannot be
            object.__setattr__(found, "minimum", change(found))
            return found

        return minimum_heads

    swap("convolution", "minimum_heads", make)


@breaks("convolution", "C-theorem-5 C-theorem-6 C-heads-pixels C-head-count")
def minimum_is_number_of_offsets():
    """The fewest heads are said to be the number of offsets."""
    _count(lambda found: found.offsets)


@breaks("convolution", "C-theorem-5 C-theorem-6 C-heads-pixels C-head-count")
def minimum_is_one_less():
    """The fewest heads are said to be one less than they are."""
    _count(lambda found: max(found.minimum - 1, 1))


@breaks("convolution", "C-theorem-5 C-theorem-6 C-heads-pixels C-head-count")
def no_direction_agrees():
    """No direction is found that agrees with all blocks, so minima below the number of offsets have
    one head more."""

    def half_space(original, rows):
        z, multipliers, margin = original(rows)
        independent = len(rows) == rows.shape[1]
        return z, multipliers.clamp(min=1e-3), margin if independent else 0.0

    swap("convolution", "half_space", around(half_space))


@breaks("convolution", "C-inverse")
def every_layer_is_a_convolution():
    """The inverse says distance 0 for every layer."""

    def attention_to_conv(original, layer, *args, **options):
        return (original(layer)[0], 0.0)

    swap("convolution", "attention_to_conv", around(attention_to_conv))


@breaks("convolution", "C-inverse")
def inverse_turns_the_kernel():
    """The inverse returns the kernel turned around."""

    def make(original):
        def attention_to_conv(layer, *args, **options):
            import torch

            conv, distance = original(layer, *args, **options)
            with torch.no_grad():
                conv.weight.copy_(conv.weight.flip(-1))
            return conv, distance

        return attention_to_conv

    swap("convolution", "attention_to_conv", make)


@breaks("convolution", "C-dilation")
def taps_without_dilation():
    """Taps stand side by side, whatever the dilation."""

    def make(original):
        def tap_table(*args, **options):
            import inspect

            bound = inspect.signature(original).bind(*args, **options)
            bound.apply_defaults()
            if "dilation" in bound.arguments:
                bound.arguments["dilation"] = 1
            return original(*bound.args, **bound.kwargs)

        return tap_table

    swap("convolution", "tap_table", make)


@breaks("convolution", "C-finite-logits")
def weight_off_target_forgotten():
    """The formula for the weight off the target forgets the number of other patches."""

    def astray(original, *args, **options):
        return original(*args, **options) / 2

    swap("convolution", "astray", around(astray))


@breaks("convolution", "C-lemma-2 C-theorem-1")
def offset_read_from_the_key():
    """Relative positions are query minus key."""

    def make(original):
        class ConvAttention(original):
            def attention_map(self, x):
                return super().attention_map(x).transpose(-1, -2)

        return ConvAttention

    swap("convolution", "ConvAttention", make)


@breaks("convolution", "C-encodings")
def buckets_without_direction():
    """Distances before and after share their bucket."""

    def bucket(original, distance, *args, **options):
        return original(-distance.abs(), *args, **options)

    swap("convolution", "bucket", around(bucket))


@breaks("convolution", "C-encodings")
def table_one_row_off():
    """The table of relative positions is read one row too low."""
    import vit_theory.convolution.encodings as page

    name = "table (Swin)"
    page.ENCODINGS[name] = lambda grid, D, original=page.ENCODINGS[name]: original(
        grid, (D[0] + 1, D[1])
    )


@breaks("convolution", "C-head-width")
def narrow_heads_share_values():
    """Narrow heads all read the first features of their wide head."""

    def make(original):
        def narrow_heads(layer, width):
            import torch

            narrow = original(layer, width)
            with torch.no_grad():
                narrow.W_V.copy_(narrow.W_V[:1].expand_as(narrow.W_V))
            return narrow

        return narrow_heads

    swap("convolution", "narrow_heads", make)


@breaks("convolution", "C-head-width")
def last_narrow_head_silent():
    """The last narrow head does nothing, and taking it away shows nothing."""

    def make(original):
        def narrow_heads(layer, width):
            import torch

            narrow = original(layer, width)
            with torch.no_grad():
                narrow.W_O[-1] = 0
            return narrow

        return narrow_heads

    swap("convolution", "narrow_heads", make)


@breaks("convolution", "C-trained-heads")
def heads_not_trained():
    """Queries, keys and positions take no step."""
    swap("convolution", "fit_heads", with_arguments(steps=0))


@breaks("convolution", "C-trained-heads")
def one_trained_head_less():
    """Training asked for nine heads gets eight, for eight seven."""

    def fit_heads(original, conv, patch, grid, heads, **options):
        return original(conv, patch, grid, heads - 1, **options)

    swap("convolution", "fit_heads", around(fit_heads))


@breaks("convolution", "C-extra-head")
def extra_head_takes_one_key_less():
    """The extra head averages all patches but the first."""

    def make(original):
        def soft_attention(*args, **options):
            layer = original(*args, **options)
            import torch

            if options.get("extra", True):
                with torch.no_grad():
                    layer.attend.table[-1, ..., 0] = -30.0
            return layer

        return soft_attention

    swap("convolution", "soft_attention", make)


# Images
# ------------------------------------------------------------------------------------------------


@breaks("images", "B-images-positional B-images-association B-images-pixels")
def images_learning_rate_zero():
    """Training on images does not move."""
    swap("models", "train", with_arguments(lr=1e-12))  # 0 is refused


@breaks("images", "A-images-mass A-images-sparsification")
def canvases_learning_rate_zero():
    """Training on canvases does not move."""
    swap("models", "train", with_arguments(lr=1e-12))  # 0 is refused


@breaks("images", "C-table-1 C-figure-2 C-figure-2-convolution C-acceleration")
def two_phases_learning_rate_zero():
    """Neither phase moves."""
    swap("models", "train", with_arguments(lr=1e-12))  # 0 is refused


@breaks(
    "images",
    "B-images-positional B-images-association B-images-pixels A-images-mass "
    "A-images-sparsification C-table-1 C-figure-2 C-figure-2-convolution C-acceleration",
)
def image_labels_shuffled():
    """Models are trained on labels that belong to other images."""

    def make(original):
        def train(vit, data, *args, **options):
            import torch

            order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(0))
            return original(
                vit, dataclasses.replace(data, labels=data.labels[order]), *args, **options
            )

        return train

    swap("models", "train", make)


@breaks("images", "B-images-positional B-images-association B-images-pixels")
def positions_not_seen():
    """Attention by position sees the same position everywhere."""

    def forward(original, self, x, P, need_map=False):
        return original(self, x, P * 0, need_map)

    swap_method("models", "PositionalAttention", "forward", around(forward))


@breaks("images", "B-images-pixels")
def neighbors_in_the_permuted_picture():
    """Neighbors are counted where the permutation has put pixels and patches, not where they
    were."""

    def make(original):
        def association(vit, test, order, seed):
            return original(vit, test, order.sort().values, seed)

        return association

    swap("images", "association", make)


@breaks("images", "A-images-mass A-images-sparsification")
def relevant_patches_elsewhere():
    """The places that are said to be the picture's are other places of the canvas."""

    def make(original):
        def mass_by_layer(vit, canvases, places):
            import torch

            return original(vit, canvases, torch.arange(len(places)))

        return mass_by_layer

    swap("images", "mass_by_layer", make)


@breaks("images", "A-images-sparsification")
def tokens_chosen_at_random():
    """The relevant tokens are named at random, for the oracle too."""

    def make(original):
        def tokens(self, canvases, g):
            import torch

            n = self.canvas.canvas[0] * self.canvas.canvas[1]
            return (
                torch.rand(len(canvases), n, generator=g)
                .topk(self.number)
                .indices.to(canvases.device)
            )

        return tokens

    swap_method("images", "Dealer", "tokens", make)


@breaks("images", "C-table-1 C-figure-2-convolution C-acceleration")
def kernel_lost_at_the_transfer():
    """Phase 2 starts from kernels other than those that phase 1 has learned."""

    def make(original):
        def to_attention(vit, *args, **options):
            import copy

            import torch

            other = copy.deepcopy(vit)
            g = torch.Generator().manual_seed(0)
            for name, weight in other.named_parameters():
                if "mixer" in name and weight.dim() == 4:
                    with torch.no_grad():
                        weight.copy_(weight.std() * torch.randn(weight.shape, generator=g))
            return original(other, *args, **options)

        return to_attention

    swap("models", "to_attention", make)


@breaks("images", "C-figure-2-convolution C-table-1 C-acceleration")
def no_phase_one():
    """The convolutional phase takes no step."""

    def make(original):
        def train(vit, *args, **options):
            return original(
                vit,
                *args,
                **({**options, "lr": 1e-12} if vit.config["mixer"] == "convolution" else options),
            )

        return train

    swap("models", "train", make)


@breaks("images", "C-figure-2-convolution")
def warm_up_for_all():
    """The arms without warm-up have one."""
    swap(
        "models",
        "train",
        with_arguments(descent=importlib.import_module("vit_theory.images").Descent()),
    )


# One model for three papers
# --------------------------------------------------------------------------------------------------


@breaks(
    "together",
    "B-together-descent B-together-window",
    "tests/test_together_model.py::test_the_risk_is_that_of_all_samples",
)
def marks_without_variance():
    """The exact risk forgets the variance of what a place hears."""

    def make(original):
        def heard_cumulants(*args):
            cumulants, slopes = original(*args)
            cumulants[:, 2] = 0
            slopes[:, 2] = 0
            return cumulants, slopes

        return heard_cumulants

    swap("together", "heard_cumulants", make)


@breaks("together", "B-together-descent B-together-window A-together-border C-together-phases")
def no_push_at_home():
    """The exact path starts without the push at offset 0."""
    swap("together", "population_path", with_arguments(kappa=0.0))


@breaks("together", "A-together-content A-together-border C-together-phases")
def keys_frozen():
    """Keys have the learning rate 0."""
    swap("together", "training_states", with_arguments(lr_u=0.0))


@breaks(
    "together",
    "A-together-border C-together-phases",
    "tests/test_together_model.py::test_slopes_are_those_of_autograd",
)
def positions_at_half_their_slope():
    """Trainings take half of the slope in positions."""

    def hinge_slopes(original, *args):
        of_positions, *others = original(*args)
        return of_positions / 2, *others

    swap("together", "hinge_slopes", around(hinge_slopes))


@breaks(
    "together",
    "C-together-phases",
    "tests/test_together_model.py::test_a_first_phase_leaves_the_keys_alone",
)
def first_phase_with_keys():
    """Keys move in the first phase of trainings too."""
    swap("together", "training_states", with_arguments(first=0))


@breaks("together", "A-together-content")
def labels_half_turned():
    """Two in four labels are turned."""

    def sample(original, self, *args, **options):
        drawn = original(self, *args, **options)
        return drawn._replace(y=half_turned(drawn.y))

    swap_method("together", "WindowData", "sample", around(sample))


@breaks("together", "C-together-heads")
def heads_hardly_trained():
    """Heads take one step."""

    def train_heads(original, T, heads, seed, steps):
        return original(T, heads, seed, 1)

    swap("together", "train_heads", around(train_heads))


@breaks("together", "C-together-heads")
def a_head_is_lost():
    """One head fewer than asked for."""

    def train_heads(original, T, heads, seed, steps):
        return original(T, heads - 1, seed, steps)

    swap("together", "train_heads", around(train_heads))


def said(row: dict) -> str:
    """The verdict of a row; where nothing is shown with the reason, numbers aside."""
    reason = re.sub(r"[-−+±×/%]*\d[\d.,/%]*", "#", f"{row['measured']} {row['note']}").strip()
    return f"{row['verdict']}: {reason}" if row["verdict"] in NOT_SHOWN else row["verdict"]


def verdict_of(id: str) -> str:
    """What a row says, run here and now."""
    from vit_theory.ledger.claims import Run, load_claims, select_claims
    from vit_theory.ledger.run import run_claim
    from vit_theory.ledger.sweeps import one_thread

    (claim,) = select_claims(load_claims(), [id])
    with one_thread():
        row, *_ = run_claim(claim, Run(progress=False))
    return said(row) if row["verdict"] else f"error: {row['error']}"


def outcome_of(test: str) -> str:
    """What a test says, run here and now."""
    import pytest

    code = pytest.main(
        [
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            f"--rootdir={RESULTS.parent}",
            str(RESULTS.parent / test),
        ]
    )
    return {0: "passes", 1: "fails"}.get(code, f"error: pytest ends with {code}")


def outcomes(name: str, watchers: list[str]) -> list[dict]:
    """Break the code in this process, and ask the rows and tests."""
    from vit_theory.ledger.evidence import committed

    broken = FAULTS[name]
    verdicts = {row["id"]: said(row) for row in committed("quick")}
    if unknown := [
        watcher for watcher in watchers if watcher not in verdicts and "::" not in watcher
    ]:
        raise LookupError(f"{name} names rows that are not committed: {', '.join(unknown)}")
    broken.apply()
    found = []
    for watcher in watchers:
        test = "::" in watcher
        before, after = (
            ("passes", outcome_of(watcher)) if test else (verdicts[watcher], verdict_of(watcher))
        )
        noticed = after.startswith("error: Broken") or (
            after != before and not after.startswith("error")
        )
        # the reason only where both have one
        if not (before.startswith(NOT_SHOWN) and after.startswith(NOT_SHOWN)):
            before, after = (
                text.partition(":")[0] if text.startswith(NOT_SHOWN) else text
                for text in (before, after)
            )
        row = {
            "fault": name,
            "what": broken.says,
            "row": watcher,
            "before": before[:200],
            "after": after[:200],
        }
        found.append({**row, "noticed": noticed})
    return found


@click.command(help=__doc__)
@click.option("--store", type=click.Path(path_type=Path), help="folder that keeps what is finished")
@click.option("--only", multiple=True, help="names of faults")
@click.option("--room", multiple=True, help="only the faults of these rooms")
@click.option(
    "--here", is_flag=True, help="break the code in this process and print the rows as JSON"
)
@click.option("--watcher", multiple=True, help="with --here: these rows and tests alone")
def main(store, only, room, here, watcher):
    chosen = [
        name
        for name in FAULTS
        if (not only or name in only) and (not room or FAULTS[name].room in room)
    ]
    if here:
        print(json.dumps(outcomes(chosen[0], list(watcher) or FAULTS[chosen[0]].watchers)))
        return
    if store is None:
        raise click.UsageError("--store is missing: name a folder that keeps what is finished")
    store.mkdir(parents=True, exist_ok=True)
    table = []
    for name in chosen:
        path = store / f"{name.replace('/', '.')}.json"
        kept = (
            {row["row"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
            if path.exists()
            else {}
        )
        if missing := [watcher for watcher in FAULTS[name].watchers if watcher not in kept]:
            asked = [option for watcher in missing for option in ("--watcher", watcher)]
            command = [sys.executable, __file__, "--only", name, "--here", *asked]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                click.echo(f"{name}: {(done.stderr.strip() or 'ended').splitlines()[-1]}", err=True)
                continue
            kept |= {row["row"]: row for row in json.loads(done.stdout.strip().splitlines()[-1])}
            path.write_text(json.dumps(list(kept.values())), encoding="utf-8")
        rows = [kept[watcher] for watcher in FAULTS[name].watchers]
        table += rows
        seen = [row["row"] for row in rows if row["noticed"]]
        click.echo(f"{name:50} noticed by {', '.join(seen) or 'NO ROW'}", color=False)
    # faults that were not asked for stay
    with (RESULTS / "faults.csv").open(newline="", encoding="utf-8") as file:
        others = [
            row
            for row in csv.DictReader(file)
            if row["fault"] in FAULTS and row["fault"] not in chosen
        ]
    order = list(FAULTS)
    with (RESULTS / "faults.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["fault", "what", "row", "before", "after", "noticed"])
        writer.writeheader()
        writer.writerows(sorted(others + table, key=lambda row: order.index(row["fault"])))
    from vit_theory.ledger.files import provenance

    path = RESULTS / "faults.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    if len(chosen) == len(FAULTS):
        about = {"command": "python tests/faults.py", "faults": len(FAULTS), **provenance()}
    else:  # what was run alone says so beside the others
        about |= {
            "faults": len(FAULTS),
            "later": about.get("later", {}) | dict.fromkeys(chosen, provenance()["commit"]),
        }
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    unseen = sorted(
        {row["fault"] for row in table} - {row["fault"] for row in table if row["noticed"]}
    )
    click.echo(f"{len(chosen)} faults, {len(unseen)} that no row notices: {', '.join(unseen)}")


if __name__ == "__main__":
    main()
