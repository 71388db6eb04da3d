"""Every public function by every kind of wrong argument:  python tests/fuzz.py [--only selection]
[--quick] [--random 100]

One valid call for each public callable, written once below; then the same call with one argument
made wrong, in a process of its own that may take some seconds and some memory. results/fuzz.csv
gets a row for each: callable, argument, kind, outcome, message. --random has hypothesis draw what
replaces one argument or two, in so many calls of each callable, prints the shrunken calls that end
badly, and writes nothing; the same number and --seed give the same calls. --quick leaves out the
callables that are slow; --state looks at the valid calls alone: what do they change that all code
of a process shares?
"""

import contextlib
import csv
import importlib
import inspect
import math
import multiprocessing
import os
import random
import re
import resource
import sys
import time
import warnings
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

import click
import numpy as np
import torch
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

# beartype draws which item of a list it looks at: from a stream of its own here, so that the draws
# of our code are seen
getrandbits = random.getrandbits
random.getrandbits = random.Random(0).getrandbits
import beartype  # noqa: E402, F401

random.getrandbits = getrandbits

os.environ["HF_HUB_OFFLINE"] = "1"  # a name of no data set is not looked for
PACKAGES = (
    "attention",
    "trials",
    "ledger",
    "figures",
    "real_images",
    "selection",
    "association",
    "convolution",
    "models",
    "images",
    "together",
)
SECONDS = 5.0  # that a call may take
MEMORY = 6 * 2**30  # bytes that a process may hold
HUGE = 10**12
RESULTS = Path(__file__).resolve().parent.parent / "results" / "fuzz.csv"

# callable: its arguments, in the names of `Known` below
CALLS = {
    "attention.patchify": "images=x4, patch=2",
    "attention.unpatchify": "tokens=tokens, patch=2, grid=(4, 4), channels=1",
    "attention.softmax_weights": "scores=A16, sink=True",
    "attention.attention": "q=tokens, k=tokens, v=tokens, bias=A16",
    "attention.relative_offsets": "grid=(4, 4)",
    "attention.relative_bias": "table=table, grid=(4, 4)",
    "attention.positional_attention": "x=tokens, P=P16, W_Q=W3, W_K=W3, W_V=W4",
    "attention.MultiHeadAttention": "W_Q=H, W_K=H, W_V=H, W_O=H, b_O=W4[0], table=table, "
    "grid=(4, 4), queries=order[:4]",
    "attention.MultiHeadAttention(H, H, H, H)": "x=tokens",
    "trials.trial_generators": "seed=0, trials=3, first=1",
    "trials.Batches": "samples=8, batch=4, generators=[g]",
    "trials.descend": "parameters={'a': W4}, gradient=slope, steps=3, lr=0.1, every=2",
    "trials.chunks": "trials=3, cost=10, budget=100",
    "trials.resolve_device": "device='cpu'",
    "ledger.sweeps.grid_points": "grid={'a': [1, 2], 'b': ['x', 'y']}",
    "ledger.sweep": "function=square, grid={'a': [1.0, 2.0]}, n_jobs=1, progress=False",
    "figures.subplots": "rows=1, columns=2, width=3.2, height=2.6",
    "selection.TokenData": "tokens=8, relevant=3, confusion=1, patterns=5, dim=6, noise=0.1, "
    "background='iid', mass=0, "
    "noise_law='sphere', spurious=1, spurious_rate=0.9, noisy=1, noisy_noise=1.0",
    "selection.TokenData().sample": "samples=4, trials=2, generator=g, "
    "spurious_rate=W3.abs()[0], first=1",
    "selection.TokenSample": "x=t.x, y=t.y, pattern=t.pattern, mu=t.mu, noisy=t.noisy",
    "t.split": "first=2",
    "selection.ShallowViT": "W_Q=V.W_Q, W_K=V.W_K, W_V=V.W_V, W_O=V.W_O, a=V.a",
    "V": "x=t.x, keep=keep, attention='trained'",
    "V.attention_map": "x=t.x, keep=keep",
    "selection.initial_model": (
        "mu=t.mu, neurons=8, sigma=0.1, delta=0.1, scale=1.0, xi=0.05, positions=1, seed=0, first=1"
    ),
    "selection.hinge_gradient": "model=V, x=t.x, y=t.y, attention='trained', keep=keep",
    "selection.learning_curve": (
        "alpha=0.2, samples=[8, 16], attention='trained', ratio=50.0, sigma=0.1, delta=0.1, "
        "background='neutral', mass=0.4, trials=10, networks=50, seed=0"
    ),
    "selection.fit": "model=V, x=t.x, y=t.y, steps=2, batch=2, lr=0.1, attention_lr=0.2, seed=0, "
    "keep=keep, "
    "attention='trained', watch=selection.Watch(every=1), first=1",
    "selection.Watch": "every=5, whole=True",
    "selection.limit_threshold": "alpha=0.1, attention='trained', ratio=50.0, "
    "sigma=0.1, delta=0.1, neurons=16, trials=10, seed=0",
    "selection.evaluate": "model=V, data=t, keep=keep, attention='trained'",
    "selection.attention_mass": "model=V, data=t, queries='all', keep=keep",
    "selection.keep_random": "data=t, count=2, generator=g",
    "selection.keep_oracle": "data=t, rate=0.3, generator=g",
    "selection.keep_by_attention": "model=V, data=t, count=2, generator=g",
    "selection.keep_honest": "data=t, patterns=(2, 3)",
    "association.Partition": "sets=[[0, 1], [2, 3]]",
    "association.Partition.blocks": "side=4, block=2",
    "association.Partition.strided": "patches=16, sets=4",
    "association.Partition.random": "patches=16, sets=4, seed=0",
    "association.SpatialData": "partition=p, dim=3, q=0.2, sigma=0.5, feature=w",
    "association.SpatialData(p, 3, 0.2).sample": "n=4, generator=g",
    "association.SpatialData(p, 3, 0.2).label_function": "x=s.x",
    "association.GaussianData": "partition=p, dim=3, feature=w",
    "association.GaussianData(p, 3).sample": "n=4, generator=g",
    "association.PatchAttention": "A=A16, v=w, power=3, nu=0.1, scale=2.0",
    "m": "x=s.x",
    "association.association": "scores=A16, partition=p",
    "association.chance": "partition=p",
    "association.error_rate": "score=s.y, y=s.y",
    "association.fit": (
        "model=m, x=s.x, y=s.y, steps=2, lr_v=0.1, lr_A=0.1, every=1, validation=(s.x, "
        "s.y), patience=2"
    ),
    "association.logistic_gradient": "model=m, x=s.x, y=s.y",
    "association.idealized": "patches=16, feature=w, alpha=0.05, sigma_A=1.5",
    "association.realistic": "patches=16, dim=3, sigma_A=1.5, omega=0.01, noise=0.001, nu=0.03, "
    "power=3, generator=g",
    "association.label_error": "patches=16, size=4, q=0.2",
    "association.linear_error": "patches=16, size=4, q=0.2",
    "association.regression_error": "patches=16, size=4, q=0.2, train=100, test=100, seed=0",
    "association.reduced_descent": "patches=16, size=4, q=0.1, alpha=0.05, kappa=1.5, steps=2, "
    "lr_v=0.001, lr_A=1.0, power=3, "
    "nu=0.1, method='monte_carlo', gamma=0.1, rho=0.1, seed=0, draws=100, prune=1e-9",
    "association.scaled_rates": "patches=64, rate=5.0",
    "association.plot_partitions": "partitions={'p': p}",
    "association.plot_sample": "data=association.SpatialData(p, 3, 0.2), sample=s, count=2",
    "association.plot_scores": "panels={'A': A16}",
    "association.position_logits": "P=P16, W_Q=W3, W_K=W3",
    "association.self_attention": "x=tokens, P=P16 @ W3, W_Q=W4, W_K=W4, W_V=W4",
    "association.set_attention": "label=p.label, beta=2.0",
    "association.set_mass": "A=A16, partition=p",
    "association.shift_attention": "partition=p, beta=2.0",
    "association.sort_by_set": "scores=A16, partition=p",
    "convolution.Geometry": "image_size=(8, 8), patch=(2, 2), kernel=(3, 3), stride=(1, 1), "
    "padding=(1, 1, 1, 1), dilation=(1, 1)",
    "convolution.ConvAttention": "weight=c.weight, bias=c.bias, geometry=layer.geometry, "
    "groups=1, scale=8.0",
    "convolution.conv_to_attention": "conv=c, image_size=8, patch=2, scale=8.0",
    "convolution.conv2d_to_attention": "weight=c.weight, bias=c.bias, image_size=8, patch=2, "
    "stride=1, padding=1, dilation=1, "
    "groups=1, padding_mode='zeros', scale=8.0",
    "layer": "x=tokens.double()",
    "layer.convolve": "images=x4.double()",
    "convolution.GatherAttention": "layer=layer",
    "convolution.GatherAttention(layer)": "x=tokens.double()",
    "convolution.LeanAttention": "conv=c, image_size=8, patch=2, shared=True",
    "convolution.LeanAttention(c, 8, 2)": "x=tokens.double()",
    "convolution.LeanAttention(c, 8, 2).convolve": "images=x4.double()",
    "convolution.fold": "layer=layer, tolerance=1e-5",
    "convolution.attention_to_conv": "layer=layer",
    "convolution.without_sink": "layer=layer",
    "convolution.narrow_heads": "layer=layer, width=2",
    "convolution.TorusAttention": "table=torus.attend.table, W=torus.attend.W_O, bias=c.bias, "
    "geometry=layer.geometry, torus=(5, 5)",
    "torus": "x=tokens.double()",
    "convolution.minimum_heads": "conv=c, patch=2, rtol=1e-9",
    "convolution.MinimumHeads": (
        "minimum=1, rank=1, offsets=1, paper=9, singular_values=(1.0,), "
        "certificate=least.certificate"
    ),
    "convolution.minimal_attention": "conv=c, image_size=8, patch=2",
    "convolution.soft_attention": "conv=c, image_size=8, patch=2, scale=2.0",
    "convolution.stride_layer": "conv=c, image_size=8, patch=2",
    "convolution.fit_heads": "conv=around, patch=2, grid=(3, 3), heads=2, seed=0, steps=1, "
    "images=8, content=0.3",
    "convolution.astray": "M=2.0, keys=9",
    "convolution.astray_with_sink": "M=2.0, keys=9",
    "convolution.error_bound": "blocks=H, M=2.0, keys=9, spread=1.0",
    "convolution.extra_head": "blocks=H, M=2.0, keys=9",
    "convolution.known_conv": "name='Sobel', channels=2",
    "convolution.random_conv": "channels=1, channels_out=2, kernel=3, seed=0",
    "convolution.paper_heads": "kernel=3, patch=2",
    "convolution.transfer_blocks": "weight=c.weight, patch=2, stride=1, padding=1, dilation=1, "
    "groups=1",
    "models.load_images": "source='digits', split='test', per_class=2, seed=0",
    "models.Images": "images=digits.images, labels=digits.labels, classes=digits.classes",
    "models.split": "data=digits, share=0.5, seed=0",
    "models.Recipe": (
        "flip=0.5, crop=0.1, randaugment=1, magnitude=9, erasing=0.2, mixup=0.5, "
        "cutmix=0.5, smoothing=0.1"
    ),
    "models.augment": "images=digits.images, labels=digits.labels, classes=10, recipe='light', g=g",
    "models.generator": "",
    "models.permute": "images=x4, patch=2, order=order",
    "images.Canvas": "patch=8, picture=(1, 1), canvas=(2, 2), filling='others', noise=0.1, seed=0",
    "images.scatter": "canvas=canvas, images=digits.images, g=g",
    "models.ContentAttention": "width=4, heads=2",
    "models.ContentAttention(4, 2)": "x=tokens",
    "models.PositionalAttention": "width=4, heads=2, eps=1e-6",
    "models.PositionalAttention(4, 2)": "x=tokens, P=tokens",
    "models.UniformAttention": "width=4, heads=2",
    "models.UniformAttention(4, 2)": "x=tokens",
    "models.Convolution": "channels=1, patch=(2, 2), grid=(4, 4), kernel=3",
    "models.Convolution(1, (2, 2), (4, 4))": "x=tokens",
    "models.ViT": "image_size=8, patch=2, channels=1, classes=10, depth=1, heads=2, "
    "mixer='content', width=8, hidden=2.0, "
    "keep={0: 0.5}, taps=models.Taps(), variant=models.Variant(), seed=0",
    "models.Taps": "kernel=3, scale=8.0, construction='full'",
    "models.Variant": "projection='learned', pool='mean', eps=1e-6, mean=0.5, std=0.5",
    "vit": "images=digits.images, tokens=order[:4].expand(20, -1), keep={0: 0.5}",
    "vit.attention_maps": "images=digits.images",
    "models.flops": "vit=vit, keep={0: 0.5}, tokens=8",
    "models.from_transformers": "model=hub",
    "models.evaluate": "vit=vit, data=digits, batch=7, tokens=order[:4].expand(20, -1)",
    "models.load_vit": "path='nothing.safetensors'",
    "models.train": "vit=fresh(), data=digits, epochs=1, validation=digits, recipe='none', "
    "batch=10, lr=0.001, "
    "descent=models.Descent(), seed=0, device='cpu', machine=models.Machine(), progress=False",
    "models.Descent": "weight_decay=0.05, warmup=1.0, clip=1.0",
    "models.Machine": "precision='32-true', processes=1",
    "models.conv_init": "model=hub, convs=None, kernel=3, scale=8.0, seed=0",
    "models.cnn_to_vit": "cnn=cnn, image_size=8, patch=2, shared=True, scale=8.0",
    "models.init_from_convs": "model=new_hub(), convs=[two], scale=8.0, seed=0",
    "models.to_attention": "vit=phase, scale=8.0, construction='full', seed=0",
    "models.attention_maps": "model=vit, batches=[digits.images], forward=None",
    "models.LayerMap": "",
    "models.head_atlas": "model=vit, batches=[digits.images], grid=(4, 4), forward=None",
    "models.nearest_conv": "module_or_map=A16.softmax(-1), grid=(4, 4)",
    "models.leaders": "atlas=atlas",
    "models.plot_atlas": "atlas=atlas",
    "models.as_images": "data=photo_table, size=8, label='label'",
    "models.stream_images": "source=photo_table, split='train', size=8, label='label'",
    "models.choose_heads": "atlas=atlas, number=1, by='cost', seed=0",
    "models.replace_heads": "model=vit, where=models.choose_heads(atlas, 1), kernel=3",
    "models.replacement_change": (
        "model=vit, replaced=models.replace_heads(vit, models.choose_heads(atlas, 1)), "
        "batches=[digits.images], forward=None"
    ),
    "models.without_head": "model=vit, layer=0, head=0",
    "models.CIFAR10": "",
    "models.LEADS": "",
    "models.pack_vit": "vit=vit, path='nothing.npz'",
    "models.unpack_vit": "path='nothing.npz'",
    "models.trained_vit": "mixer='content'",
    "models.drop_tokens": "model=hub, keep={0: 0.5}, by='attention', seed=0",
    "models.operations": "model=vit, images=x4[:1]",
    "models.Subject": "",
    "models.subject_of": "model=hub, data=digits, processor=None, size=8, forward=None",
    "models.position_association": "encodings=P16, grid=(4, 4)",
    "models.write_atlas": (
        "model='nothing.safetensors', images='digits', out='nothing', count=2, "
        "batch=2, size=None, progress=False"
    ),
    "models.to_transformers": "vit=theirs",
    "models.Classifier": "model=hub, processor=None, mean=0.5, std=0.5",
    "models.PyramidSizes": (
        "image_size=8, patch=2, channels=1, classes=10, widths=(4, 8), depths=(1, 1), "
        "ratios=(1, 2), kernel=3"
    ),
    "models.PyramidViT": "sizes=small, seed=0",
    "models.PyramidViT(small)": "images=x4",
    "pyramid.to_attention": "scale=2.0",
    "models.choose_tokens": "model=vit, images=digits.images, number=4, by='attention', seed=0, "
    "layers=slice(None)",
    "models.keep_curve": "model=vit, data=digits, rates=(1.0, 0.5), seed=0",
    "models.probe": "model=vit, images=digits.images, relevant=order[:2], order=order, seed=0",
    "models.plot_heads": "seen=seen",
    "models.plot_maps": "seen=seen, query=3, heads=2",
    "models.plot_positions": "seen=seen",
    "models.plot_keep": "curve=curve",
    "images.STARTS": "",
    "images.Start": (
        "maps='one tap', values='random', queries='zero', first='convolution', "
        "last='attention', cycles=2"
    ),
    "images.start_model": "start='conv_init', classes=3, seed=0",
    "images.start_cell": (
        "folder='nothing', start='conv_init', number=1000, seed=0, rate=0.001, "
        "choosing=False, store=None"
    ),
    "images.start_cells": (
        "folder='nothing', cells=[('conv_init', 0, 0.001)], number=1000, choosing=False, "
        "device='cpu'"
    ),
    "images.paired_difference": "table=arms, arm='a', rival='b'",
    "images.RecordRecipe": "epochs=1, batch=10, matrix_lr=0.02, other_lr=0.003, "
    "weight_decay=0.05, warmup=0.1, smoothing=0.1, "
    "border=1",
    "images.train_record": (
        "train_data=digits, test_data=digits, sizes=small, recipe=recipe, seed=0, "
        "folder=None, progress=False, device='cpu'"
    ),
    "images.canvas_study": "run=run, size='quick', arms=('all',)",
    "images.positions_study": "run=run, size='quick', arms=('content',), experiment='positions'",
    "images.two_phase_study": "run=run, size='quick', arms=('convolution',)",
    "images.curve_study": "run=run, along='keep', size='quick'",
    "images.plot_acceleration": "study=measured('C-acceleration')",
    "images.plot_arms": "study=measured('C-table-1')",
    "images.plot_choices": "pilot=canvas_vit, layout=canvas, canvases=canvases, number=1",
    "images.plot_curve": "study=measured('A-images-mass')",
    "images.plot_mass": "study=measured('A-images-mass')",
    "images.plot_positional": "study=measured('B-images-positional')",
    "images.plot_warmup": "study=measured('C-figure-2')",
    "together.WindowData": "grid=(1, 6), window=[0, 1], share=0.5, q=0.25, visible=0.5, dim=3, "
    "noise=0.1",
    "together.WindowData((1, 6), [0, 1]).sample": "n=4, generator=g",
    "together.population_path": "data=shifted, kappa=1.0, v=0.05, steps=1, lr_b=1.0, lr_u=0.1, "
    "lr_v=0.01, nu=0.1",
    "together.visible_border": "data=shifted, kappa=1.0",
}
# Whole experiments, a file that is not there, a figure of data that are not committed: refusals are
# tried, valid calls are not.
NOT_RUN = {
    "images.canvas_study",
    "images.positions_study",
    "images.two_phase_study",
    "images.curve_study",
    "models.load_vit",
    "models.pack_vit",
    "models.unpack_vit",
    "images.plot_curve",
    "models.write_atlas",
    "images.start_cell",
    "images.start_cells",
}
PLOTS = {name for name in CALLS if name.startswith(("models.plot", "images.plot"))}
SLOW = (
    NOT_RUN
    | PLOTS
    | {
        "models.train",
        "models.conv_init",
        "models.init_from_convs",
        "models.from_transformers",
        "models.to_transformers",
        "models.Classifier",
        "models.subject_of",
        "images.start_model",
        "images.train_record",
    }
)


class Known:
    """What the valid calls stand on, made when it is first asked for."""

    def __getitem__(self, name):
        if name in PACKAGES:
            return importlib.import_module(f"vit_theory.{name}")
        if not hasattr(type(self), name):
            raise KeyError(name)
        return getattr(self, name)

    @property
    def g(self):
        return torch.Generator().manual_seed(0)

    @cached_property
    def x4(self):
        return self.draw(2, 1, 8, 8).sigmoid()

    @cached_property
    def tokens(self):
        return self.draw(2, 16, 4)

    @cached_property
    def A16(self):
        return self.draw(16, 16)

    @cached_property
    def P16(self):
        return self.draw(16, 4)

    @cached_property
    def W3(self):
        return self.draw(4, 4).tanh()

    @cached_property
    def W4(self):
        return self.draw(4, 4).tanh()

    @cached_property
    def H(self):
        return self.draw(2, 4, 4)

    @cached_property
    def w(self):
        return torch.eye(3)[0]

    @cached_property
    def table(self):
        return self.draw(2, 7, 7)

    @cached_property
    def order(self):
        return torch.randperm(16, generator=self.g)

    @cached_property
    def t(self):
        return self["selection"].TokenData().sample(4, 2, generator=self.g)

    @cached_property
    def V(self):
        return self["selection"].initial_model(self.t.mu, neurons=8)

    @cached_property
    def keep(self):
        return torch.arange(20).expand(2, 4, 20) % 2 == 0

    @cached_property
    def p(self):
        return self["association"].Partition.blocks(4, 2)

    @cached_property
    def s(self):
        return self["association"].SpatialData(self.p, 3, 0.2).sample(4, self.g)

    @cached_property
    def m(self):
        return self["association"].idealized(16, self.w)

    @cached_property
    def c(self):
        return self.c_like()

    @cached_property
    def around(self):
        return self.c_like(padding_mode="circular", bias=False)

    @cached_property
    def layer(self):
        return self["convolution"].conv_to_attention(self.c, 8, 2)

    @cached_property
    def torus(self):
        return self["convolution"].minimal_attention(self.c, 8, 2)

    @cached_property
    def least(self):
        return self["convolution"].minimum_heads(self.c, 2)

    @cached_property
    def digits(self):
        return self["images"].load_images(per_class=2)

    @cached_property
    def canvas(self):
        return self["images"].Canvas(8, (1, 1), (2, 2))

    @cached_property
    def canvases(self):
        return self["images"].scatter(self.canvas, self.digits.images[:3], self.g)

    @cached_property
    def canvas_vit(self):
        return self["images"].ViT(16, 8, 1, 10, 1, 2, width=8)

    @cached_property
    def vit(self):
        return self.fresh()

    @cached_property
    def theirs(self):
        return self["models"].ViT(8, 2, 1, 10, 1, 2, width=8, variant=self.class_token)

    @property
    def class_token(self):
        return self["models"].Variant(pool="cls")

    @cached_property
    def atlas(self):
        return self["models"].head_atlas(self.vit, [self.digits.images])

    @cached_property
    def small(self):
        return self["models"].PyramidSizes(8, 2, 1, 10, (4, 8), (1, 1), (1, 2))

    @cached_property
    def pyramid(self):
        return self["models"].PyramidViT(self.small).eval()

    @cached_property
    def recipe(self):
        return self["images"].RecordRecipe(epochs=1, batch=10, bfloat16=False)

    @cached_property
    def phase(self):
        return self["images"].ViT(8, 2, 1, 10, 1, 2, mixer="convolution")

    @cached_property
    def seen(self):
        return self["images"].probe(self.vit, self.digits.images)

    @cached_property
    def curve(self):
        return self["images"].keep_curve(self.vit, self.digits, (1.0, 0.5))

    @cached_property
    def shifted(self):
        return self["together"].WindowData((1, 6), [0, 1], 0.5)

    @cached_property
    def run(self):
        return importlib.import_module("vit_theory.ledger").Run(seeds=(0,), progress=False)

    def draw(self, *shape):
        return torch.randn(*shape, generator=self.g)

    def c_like(self, **options):
        return self["convolution"].random_conv(1, 1, 3, padding=1, **options)

    def fresh(self):
        return self["images"].ViT(8, 2, 1, 10, 1, 2)

    def measured(self, id):
        return importlib.import_module("vit_theory.ledger").measured(id, "quick")

    def slope(self, theta, step):
        return {"loss": theta["a"].square().sum(1)}, {"a": 2 * theta["a"]}

    def square(self, a):
        return {"b": a * a}

    @cached_property
    def arms(self):
        import pandas

        return pandas.DataFrame(
            {"arm": ["a", "b"] * 2, "seed": [0, 0, 1, 1], "accuracy": [0.5, 0.4, 0.6, 0.3]}
        )

    @cached_property
    def two(self):
        return torch.nn.Conv2d(2, 2, 3, padding=1)

    @cached_property
    def cnn(self):
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.BatchNorm2d(2), torch.nn.ReLU()
        )

    @cached_property
    def photo_table(self):
        import datasets

        columns = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}
        pictures = [np.full((12, 10, 3), shade, np.uint8) for shade in (0, 255)]
        rows = {"image": pictures, "label": [0, 1]}
        return datasets.Dataset.from_dict(rows, datasets.Features(columns))

    @cached_property
    def hub(self):
        return self.new_hub()

    def new_hub(self):
        from transformers import ViTConfig, ViTForImageClassification

        sizes = {
            "hidden_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 16,
        }
        return ViTForImageClassification(
            ViTConfig(image_size=8, patch_size=2, num_channels=1, num_labels=2, **sizes)
        )


KNOWN = Known()


@cache
def place_of(name):
    return eval(name, {}, KNOWN)


def arguments_of(name):
    """Fresh arguments of the valid call."""
    return eval(f"dict({CALLS[name]})", {"dict": dict, "slice": slice}, KNOWN)


# of another type altogether
TYPES = {
    "None": None,
    "string": "wrong",
    "number": 3,
    "list": [1.5],
    "function": abs,
}


def tensors(x):
    """A tensor made wrong."""
    yield from {"rank + 1": x[None], "rank - 1": x[0] if x.ndim else x, "empty": x[:0]}.items()
    yield from {"first - 1": x[:-1], "last - 1": x[..., :-1]}.items()
    if x.is_floating_point():
        for kind, value in {"NaN": math.nan, "inf": math.inf, "1e30": 1e30}.items():
            wrong = x.detach().clone(memory_format=torch.contiguous_format)
            wrong.view(-1)[0] = value
            yield kind, wrong
        yield from {"integers": x.long(), "complex": x + 0j, "zeros": torch.zeros_like(x)}.items()
    elif x.dtype == torch.bool:
        yield from {"integers": x.long(), "zeros": x & False}.items()
    elif x.dtype == torch.uint8:
        yield from {"integers": x.long(), "255": x.float(), "NaN": x / 0.0 * 0}.items()
    else:
        yield from {
            "floats": x.float() + 0.5,
            "negative": -1 - x,
            "1e12": x + HUGE,
            "zeros": x * 0,
        }.items()


def wrongs(value, only=None):
    """(kind, value) of an argument made wrong: what its type suggests, then other types. `only`:
    see `parts`."""
    if isinstance(value, torch.Tensor):
        yield from tensors(value)
    elif isinstance(value, bool):
        return  # Python takes anything for a truth value
    elif isinstance(value, int):
        yield from {
            "zero": 0,
            "negative": -1,
            "1e12": HUGE,
            "fraction": 2.5,
            "NaN": math.nan,
            "inf": math.inf,
        }.items()
    elif isinstance(value, float):
        yield from {
            "zero": 0.0,
            "negative": -1.0,
            "1e30": 1e30,
            "NaN": math.nan,
            "inf": math.inf,
        }.items()
        yield "vector", torch.ones(2)
    elif isinstance(value, str):
        yield "empty", ""
    elif isinstance(value, tuple) and value and all(isinstance(v, int) for v in value):
        yield from {"empty": (), "longer": (*value, 1)}.items()
        for kind, first in {"zero": 0, "negative": -1, "fraction": 1.5, "1e12": HUGE}.items():
            yield kind, (first, *value[1:])
    elif isinstance(value, dict | list | tuple):
        yield "empty", type(value)()
        if isinstance(value, tuple) and isinstance(value[0], torch.Tensor):
            yield "first - 1", (value[0][:-1], *value[1:])
    elif is_dataclass(value) and any(
        isinstance(getattr(value, f.name), torch.Tensor) for f in fields(value)
    ):
        yield from parts(value, only)
    for kind, other in TYPES.items():
        if type(other) is not type(value):
            yield kind, other


def parts(value, only):
    """A data class of tensors with one of them made wrong; `only`: no other kind is made, as each
    takes milliseconds."""
    for field in fields(value):
        if isinstance(tensor := getattr(value, field.name), torch.Tensor):
            for kind, wrong in tensors(tensor):
                name = f"{field.name}: {kind}"
                if kind in ("first - 1", "last - 1", "empty", "NaN", "rank + 1") and only in (
                    None,
                    name,
                ):
                    with contextlib.suppress(ValueError):  # it may be refused at construction
                        yield name, replace(value, **{field.name: wrong})


def fits(name, argument, value):
    """Whether it is the argument's default, or a function or any model where one is asked for: what
    that raises is its own."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        parameter = inspect.signature(place_of(name)).parameters[argument]
        if value is None:
            return parameter.default is None
        model = isinstance(value, torch.nn.Module) and parameter.annotation is torch.nn.Module
        return model or (callable(value) and "Callable" in str(parameter.annotation))
    return False


def attempts(name):
    """(argument, kind) of every wrong call."""
    for argument, value in arguments_of(name).items():
        for kind, wrong in wrongs(value):
            if not fits(name, argument, wrong):
                yield argument, kind


def unknown(result, depth=0):
    """Whether NaN is in a result."""
    if isinstance(result, torch.Tensor):
        return bool(result.isnan().any()) if result.is_floating_point() else False
    if isinstance(result, float):
        return math.isnan(result)
    if isinstance(result, np.ndarray):
        return result.dtype.kind == "f" and bool(np.isnan(result).any())
    if isinstance(result, torch.nn.Module):
        return any(unknown(p) for p in result.parameters())
    if isinstance(result, dict):
        return any(unknown(v) for v in result.values())
    if type(result).__name__ == "Dataset":
        return any(unknown(v.values) for v in result.values())
    if isinstance(result, tuple | list):
        return depth < 3 and any(unknown(v, depth + 1) for v in result)
    if is_dataclass(result) and not isinstance(result, type):
        return any(unknown(getattr(result, f.name), depth + 1) for f in fields(result))
    return False


def made_wrong(name, wrong):
    """The arguments of a call, some of them made wrong: by a kind of the table, or by Python for
    another value."""
    given = arguments_of(name)
    for argument, how in wrong.items():
        kinds = dict(wrongs(given[argument], how))
        given[argument] = (
            kinds[how] if how in kinds else eval(how, NAMES | {"value": given[argument]}, KNOWN)
        )
    return given


def outcome_of(name, wrong):
    """(outcome, message) of one wrong call."""
    given = made_wrong(name, wrong)
    try:
        result = place_of(name)(**given)
        result = list(result) if inspect.isgenerator(result) else result
    except (ValueError, TypeError, FloatingPointError) as error:
        # two arguments that do not fit together may be named by either; the article "a" is no
        # argument
        names = [
            *given,
            *(
                field.name
                for value in given.values()
                if is_dataclass(value)
                for field in fields(value)
            ),
        ]
        named = any(
            re.search(rf"\b{n}\b" if n != "a" else r"\ba(=| has)", str(error)) for n in names
        )
        clear = named and "vit_theory" in inspect.trace()[-1].filename
        return "clear" if clear else "obscure", f"{type(error).__name__}: {error}"
    except Exception as error:
        return "obscure", f"{type(error).__name__}: {error}"
    return "NaN out" if unknown(result) else "accepted", ""


def work(pipe):
    """Answer calls until the pipe is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1), os.dup2(1, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    while call := pipe.recv():
        pipe.send(outcome_of(*call))


class Worker:
    """A process that answers calls, replaced when it hangs or dies."""

    def __init__(self):
        self.process = None

    def ask(self, call):
        for seconds in (SECONDS, 6 * SECONDS):  # on a busy machine an import alone may take longer
            if self.process is None:
                self.pipe, theirs = multiprocessing.Pipe()
                self.process = multiprocessing.get_context("fork").Process(
                    target=work, args=(theirs,), daemon=True
                )
                self.process.start()
                theirs.close()
            try:
                self.pipe.send(call)
                if self.pipe.poll(seconds):
                    return self.pipe.recv()
                outcome = "hang", f"no answer in {seconds:g} s"
            except (EOFError, ConnectionError):
                outcome = "crash", "the process died"
            self.stop()
        return outcome

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def judge(name, argument, kind, outcome):
    """`accepted` where the argument is wrong; `right` where it makes sense after all, `argued`
    where it does not and stays."""
    if outcome in ("accepted", "NaN out"):
        for verdict, rules in (("right", RIGHT), ("argued", ARGUED)):
            for pattern in rules:
                if all(
                    re.fullmatch(rule, text)
                    for rule, text in zip(pattern, (name, argument, kind), strict=True)
                ):
                    return verdict
    return outcome


LAYERS = (
    r"V|V\.attention_map|m|layer|layer\.convolve|torus|vit(\.attention_maps)?|(attention|"
    r"convolution|models)\.\w+\(.*\)|"
    r"attention\.(attention|softmax_weights|positional_attention)|"
    r"association\.(position_logits|self_attention)"
)
MOVES = r"attention\.(patchify|unpatchify|relative_bias)|models\.permute|association\.sort_by_set"
WEIGHTS = (
    r"selection\.ShallowViT|association\.PatchAttention|attention\.MultiHeadAttention|"
    r"convolution\.TorusAttention"
)
# (callable, argument, kind), as regular expressions: why the call makes sense
RIGHT = {
    (r"models\.Classifier", r"mean|std", r"list"): "one number for each of one channel",
    (
        r".*",
        r".*",
        r"number",
    ): "a whole number will do where a float, a size or something to add is asked for",
    (r".*", r"seed|first", r"zero|1e12"): "whole numbers are names of random streams",
    (r"models\.without_head", r"layer|head", r"zero"): "layers and heads count from zero",
    (
        MOVES,
        r".*",
        r"NaN|inf|1e30|integers|complex|first - 1|empty",
    ): "moves entries, whatever they are",
    (
        LAYERS,
        r"[a-zA-Z_]+",
        r"NaN|inf|1e30|(first|last) - 1|empty|rank . 1",
    ): "layers and formulas compute with what they get, in batches of any shape, "
    "as those of torch do: a look at all values "
    "would be one more pass at every step",
    (
        WEIGHTS,
        r".*",
        r"NaN|inf|1e30",
    ): "a descent that diverges has such weights; it marks the trial and keeps the others",
    (
        r"(selection|association)\..*",
        r"model",
        r"\w+: (NaN|inf|1e30|zeros)",
    ): "a diverged trial: NaN where its weights are read; or one that has not begun",
    (r"together\.WindowData", r"share|visible", r"zero"): "no signal, or one without marks",
    (
        r"together\.population_path",
        r"v",
        r"zero|negative",
    ): "a value may have any sign, and zero stays where it is",
    (
        r"(selection|association)\.fit",
        r"lr|lr_v|attention_lr",
        r"1e30",
    ): "a descent that diverges: its trial is marked",
    (r".*", r".*", r"zeros"): "zero is a number, the first class, the first patch",
    (r".*", r".*", r"vector"): "one rate for each trial",
    (
        r"association\.(association|error_rate)",
        r"scores?",
        r"inf",
    ): "inf is larger than every number, and so it ranks",
    (r".*", r"scores?|y", r"integers"): "the same numbers",
    (
        r".*",
        r"feature",
        r"integers|complex",
    ): "taken over into the default type, as lists are; the imaginary parts are 0",
    (
        r"association\.set_attention",
        r"label",
        r"floats|negative|1e12|complex",
    ): "labels are compared and nothing else",
    (r"association\.PatchAttention", r"power", r"1e12"): "odd, however large",
    (r"association\.error_rate", r"score|y", r"first - 1|last - 1"): "fewer images, of both",
    (r"association\.error_rate", r"score", r"NaN"): "documented: NaN where a score is",
    (
        r"selection\.(keep|evaluate|attention_mass).*",
        r"data",
        r"mu: NaN|x: NaN",
    ): "a part that the function does not read",
    (r"association\.plot_sample", r"sample", r"x: .*"): "a part that the function does not read",
    (
        r".*",
        r".*(x|P|v|mu|W_V|W_O|a|images|canvases|tokens|queries|relevant|feature|label|blocks|"
        r"data|order|weight)",
        r"(images: )?(first|last) - 1",
    ): "another number of images, trials, channels or tokens; nothing else disagrees",
    (
        r".*",
        r"confusion\w*|noise|noisy_noise|mass|spurious\w*|noisy|sigma|delta|xi|q|nu|omega|steps|"
        r"lr\w*|attention_lr|spread|rtol|"
        r"prune|ratio|flip|crop|erasing|mixup|cutmix|smoothing|randaugment|weight_decay|warmup|"
        r"padding|query",
        r"zero",
    ): "0 is the smallest that makes sense: none, off, or at the start",
    (
        r".*",
        r"alpha|kappa|gamma|rho|beta|sigma_A|M|mean|content|scale",
        r"zero|negative",
    ): "any real number",
    (r".*", r"\w+", r"1e30"): "a finite number",
    (r"trials\.chunks", r"cost|budget", r"1e12"): "bytes: a terabyte",
    (r"trials\.trial_generators", r"trials", r"zero"): "no trials, no generators",
    (r"ledger\.sweep", r"n_jobs", r"negative"): "documented: -1 is all cores, as in joblib",
    (r"selection\.keep_honest", r"patterns", r"empty|longer|zero"): "any set of patterns",
    (r"association\.fit", r"validation", r"empty"): "none",
    (r"convolution\..*", r"kernel|patch", r"list"): "(rows, columns), two sizes",
    (r".*", r"keep", r"empty|None"): "no token is dropped",
    (r"vit", r"tokens", r"None"): "all tokens",
    (r"images\.RecordRecipe", r"border", r"zero"): "documented: no window is shifted",
    (r"models\.attention_maps", r"batches", r"empty"): "no batches, no maps",
    (r"models\.nearest_conv", r"module_or_map", r"rank \+ 1"): "documented: weights [*, n, n]",
    (r"models\.position_association", r"encodings", r"last - 1"): "encodings of any width",
    (r".*", r"bias|scale", r"None"): "documented: no bias; one-hot",
}
# accepted though wrong, in the same words: why it stays
ARGUED = {
    (
        r"selection\.TokenSample",
        r"x|mu",
        r"NaN|inf",
    ): (
        "samples are cut and joined in loops; what reads the tokens refuses them there, "
        "before any work"
    ),
    (
        r"convolution\.MinimumHeads",
        r"minimum|rank|singular_values|certificate",
        r"zero|negative|NaN|inf|1e30|longer|list|.*: .*",
    ): (
        "a record of results: nothing takes it as an argument, "
        "and what proves a minimum is looked at, not computed with"
    ),
    (r"ledger\.sweep", r"n_jobs", r"1e12"): "joblib starts no more processes than there are cells",
    (
        r"association\.logistic_gradient",
        r"x",
        r"1e30",
    ): "an overflow of float32 on the way; x in double precision has a gradient",
    (
        r"models\.Variant",
        r"mean|std",
        r"None",
    ): "standardized images, if both are None; one alone is refused by the ViT that it is given to",
    (r"images\.Images|images\.split", r".*", r".*last - 1"): "",
}


# callable: why NaN is what it says, also of finite numbers
NAN_ANSWERS = {
    "models.choose_heads": "documented: NaN for all heads but the chosen ones",
    "models.position_association": "encodings without length have no cosine, and no neighbors",
}


def table(names):
    """A row for each wrong call."""
    worker = Worker()
    rows = []
    for name in names:
        for argument, kind in attempts(name):
            outcome, message = worker.ask((name, {argument: kind}))
            message = " ".join(message.split())[:160]
            rows.append(
                {
                    "callable": name,
                    "argument": argument,
                    "kind": kind,
                    "outcome": judge(name, argument, kind, outcome),
                    "message": message,
                }
            )
    worker.stop()
    return rows


def summary(outcomes, start):
    """How many calls had each outcome, and the seconds of all."""
    counts = dict.fromkeys(
        ("clear", "right", "argued", "obscure", "accepted", "NaN out", "hang", "crash"), 0
    ) | Counter(outcomes)
    words = ", ".join(f"{name} {number}" for name, number in counts.items())
    return f"{words} of {sum(counts.values())}, {time.time() - start:.0f} s"


# What hypothesis draws is Python text, which can be read, shrunk and repeated; `value` is the valid
# argument. Sizes are small, or
# larger than any that the package takes: a size of a million may be right, and long.
NAMES = {"nan": math.nan, "inf": math.inf, "np": np, "torch": torch, "replace": replace}
ODD = (
    "10**9 + 1",
    "-10**12",
    "2**63",
    "10**30",
    "-10**400",
    "1e12",
    "1e300",
    "True",
    "1j",
    "np.int64(2)",
    "np.float32(0.5)",
    "np.array(2.5)",
    "torch.tensor(0.5)",
    "torch.tensor(nan)",
    "torch.tensor(3)",
)
WORDS = (
    "None",
    "''",
    r"'\0'",
    "b'wrong'",
    "abs",
    "object()",
    "...",
    *dict.fromkeys(re.findall("'[^']*'", str(CALLS))),
)
OBJECTS = (
    "t",
    "V",
    "p",
    "s",
    "m",
    "c",
    "layer",
    "torus",
    "digits",
    "canvas",
    "vit",
    "g",
    "order",
    "keep",
    "table",
)
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "uint8",
    "bool",
    "complex64",
)
CHANGES = (
    "[:0]",
    "[None]",
    "[0]",
    "[1:]",
    "[..., 0]",
    "[..., 1:]",
    "[..., ::2]",
    "[:, :0]",
    ".mT",
    ".flip(0)",
    " * nan",
    " * 0",
    " * 1e30",
    " / 0",
    " * -1",
    ".clone().requires_grad_()",
    ".numpy()",
    ".tolist()",
    ".repeat_interleave(2, 0)",
    *map(".to(torch.{})".format, DTYPES),
)
# a smaller one is 0 in the type that is computed with
FLOATS = partial(st.floats, width=32, allow_subnormal=False)
NUMBERS = st.integers(-3, 30).map(str) | st.sampled_from(ODD) | (FLOATS(-2, 2) | FLOATS()).map(repr)
SCALARS = NUMBERS | st.sampled_from(WORDS)
CHANGED = st.lists(st.sampled_from(CHANGES), min_size=1, max_size=2).map("".join)


@st.composite
def arrays(draw, shape=None):
    """A tensor or an array, nearly of this shape or of any."""
    shape = list(shape or draw(st.lists(st.integers(0, 5), max_size=4)))
    if shape and draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = draw(st.integers(0, 5))
    low, high = (draw(st.sampled_from(("0", "1", "-1", "7", "nan", "inf", "-1e30"))) for _ in "ab")
    x = (
        f"torch.linspace({low}, {high}, "
        f"{math.prod(shape)}).view({shape}).to(torch.{draw(st.sampled_from(DTYPES))})"
    )
    return x + draw(st.sampled_from(("", ".numpy()")))


@st.composite
def nested(draw, depth=2):
    """Lists, tuples and dictionaries, in each other."""
    deeper = depth and draw(st.booleans())
    inner = draw(st.lists(nested(depth - 1) if deeper else SCALARS, max_size=3))
    pairs = (f"{draw(st.sampled_from(WORDS))}: {text}" for text in inner)
    tuple_text = f"({' '.join(f'{text},' for text in inner)})"
    return draw(st.sampled_from((f"[{', '.join(inner)}]", tuple_text, f"{{{', '.join(pairs)}}}")))


def replacements(value):
    """What may stand in place of a valid value: something like it, or anything at all."""
    like = ()
    if isinstance(value, torch.Tensor):
        like = arrays(value.shape), CHANGED.map("value{}".format)
    elif isinstance(value, int | float):
        like = NUMBERS, NUMBERS
    elif isinstance(value, list | tuple):
        like = (
            st.lists(NUMBERS, min_size=len(value), max_size=len(value)).map(
                lambda numbers: f"({', '.join(numbers)},)"
            ),
        )
    elif is_dataclass(value):
        names = [
            field.name
            for field in fields(value)
            if isinstance(getattr(value, field.name), torch.Tensor)
        ]
        like = [
            st.builds("replace(value, {0}=value.{0}{1})".format, st.sampled_from(names), CHANGED)
        ] * bool(names)
    return st.one_of(*like, SCALARS, nested(), arrays(), st.sampled_from(OBJECTS))


def said(**words):
    """The words that are true."""
    return [word for word, true in words.items() if true]


def kinds(value, wrong):
    """What the table calls a drawn value in place of a valid one; nothing where it may be as
    good."""
    if isinstance(wrong, torch.Tensor | np.ndarray | np.generic) and isinstance(
        value, torch.Tensor | int | float
    ):
        x = torch.as_tensor(wrong)
        like = torch.as_tensor(value)
        if isinstance(value, int | float):
            yield from ["vector"] * (x.ndim > 0)
            yield from (kind for entry in x.view(-1).tolist() for kind in kinds(value, entry))
            return
        if x.ndim != like.ndim:
            yield "rank + 1" if x.ndim > like.ndim else "rank - 1"
        elif x.shape != like.shape:
            yield "empty" if not x.numel() else "first - 1" if len(x) != len(like) else "last - 1"
        if x.is_complex():
            yield "complex"
        elif not x.is_floating_point():
            yield from ["integers"] * (
                like.is_floating_point() or x.dtype.itemsize > like.dtype.itemsize
            )
        elif like.dtype in (torch.bool, torch.int64):
            yield "floats"
        x = x.real.double()
        yield from said(
            NaN=x.isnan().any(),
            inf=x.isinf().any(),
            zeros=not x.any(),
            **{"1e30": (x.abs() > 1e9).any()},
            negative=like.dtype == torch.int64 and (x < 0).any(),
        )
    elif isinstance(wrong, int | float) and isinstance(value, int | float):
        large = "1e30" if isinstance(value, float) else "1e12"
        fraction = isinstance(value, int) and isinstance(wrong, float) and wrong % 1
        yield from said(
            NaN=wrong != wrong,
            inf=abs(wrong) == math.inf,
            zero=wrong == 0,
            **{large: 1e9 < abs(wrong) < math.inf},
            negative=wrong < 0,
            fraction=fraction,
        )
    elif isinstance(value, list | tuple) and isinstance(wrong, list | tuple):
        yield from ["longer" if wrong else "empty"] * (len(value) != len(wrong))
        yield from (kind for pair in zip(value, wrong, strict=False) for kind in kinds(*pair))
    elif is_dataclass(value) and type(value) is type(wrong):
        for name in (
            field.name
            for field in fields(value)
            if getattr(value, field.name) is not getattr(wrong, field.name)
        ):
            yield from (
                f"{name}: {kind}" for kind in kinds(getattr(value, name), getattr(wrong, name))
            )
    elif type(wrong) is not type(value):
        like = {type(None): "None", str: "string", int: "number", float: "number", tuple: "list"}
        yield like.get(type(wrong), type(wrong).__name__)


def judge_drawn(name, wrong, outcome):
    """As `judge`; what is accepted is right when all that is odd about it is. NaN means not finite
    before, or not measured."""
    if outcome not in ("accepted", "NaN out"):
        return outcome
    given = made_wrong(name, wrong)
    valid = arguments_of(name)
    odd = [
        (argument, kind) for argument in wrong for kind in kinds(valid[argument], given[argument])
    ]
    infinite = any(word in kind for _, kind in odd for word in ("NaN", "inf", "1e30"))
    if outcome == "NaN out" and not infinite and name in NAN_ANSWERS:
        return "right"
    if outcome == "NaN out" and not infinite and "every" not in wrong:
        return outcome
    verdicts = [judge(name, argument, kind, outcome) for argument, kind in odd]
    return min(verdicts, key=(outcome, "argued", "right").index, default="right")


@cache
def failure(outcome, sign):
    """A class of errors for each kind of failure: hypothesis shrinks and shows one call of each."""
    return type(outcome, (AssertionError,), {"sign": sign})


def search(name, examples, number, worker):
    """(outcome of every call, the shrunken calls that fail) of arguments that hypothesis draws."""
    outcomes = []
    valid = arguments_of(name)
    # Python takes anything for a truth value
    names = [argument for argument, value in valid.items() if not isinstance(value, bool)]
    which = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)

    @seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(
        which.flatmap(
            lambda these: st.fixed_dictionaries(
                {argument: replacements(valid[argument]) for argument in these}
            )
        )
    )
    def one(wrong):
        try:
            made = made_wrong(name, wrong)
        except Exception:
            made = None  # no such value, or refused at construction
        assume(made and not any(fits(name, argument, made[argument]) for argument in wrong))
        outcome, message = worker.ask((name, wrong))
        outcomes.append(judge_drawn(name, wrong, outcome))
        if outcomes[-1] not in ("clear", "right", "argued"):
            call = f"{name}({', '.join(f'{argument}={text}' for argument, text in wrong.items())})"
            line = f"{outcomes[-1]:9} {call}  {' '.join(message.split())[:160]}"
            raise failure(outcomes[-1], message[:30] or str([*wrong]))(line)

    failures = ()
    try:
        one()
    except BaseExceptionGroup as group:
        failures = group.exceptions
    except AssertionError as error:
        failures = [error]
    return outcomes, [str(error) for error in failures]


def shared():
    """What all code of a process shares, by name."""
    import matplotlib as mpl

    arrays = {
        "torch's random numbers": torch.get_rng_state().numpy(),
        "numpy's random numbers": np.random.get_state()[1],
    }
    return {name: array.tobytes() for name, array in arrays.items()} | {
        "Python's random numbers": random.getstate(),
        "threads": torch.get_num_threads(),
        "default dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "determinism": torch.are_deterministic_algorithms_enabled(),
        "rcParams": dict(mpl.rcParams),
        "open figures": mpl.pyplot.get_fignums() if "matplotlib.pyplot" in sys.modules else [],
        "warnings": list(warnings.filters),
        "working directory": os.getcwd(),
        "environment": dict(os.environ),
    }


def touched(names):
    """(callable, what it changed of what all share) of the valid calls; what an import changes is
    not theirs."""
    changed = []
    for name in names:
        given = arguments_of(name)
        with contextlib.redirect_stdout(None):
            place_of(name)(**given)  # the first call imports
            given = arguments_of(name)
            before = shared()
            place_of(name)(**given)
        changed += [(name, what) for what, value in shared().items() if value != before[what]]
    return changed


@click.command(help=__doc__)
@click.option("--only", default="", help="callables whose name holds this text")
@click.option("--quick", is_flag=True, help="without slow callables")
@click.option("--out", help="where the table goes; results/fuzz.csv for the whole table")
@click.option(
    "--random",
    "examples",
    type=int,
    help="calls of each callable with arguments that hypothesis draws",
)
@click.option("--seed", "number", default=0, help="of --random: which arguments")
@click.option(
    "--state", is_flag=True, help="the valid calls alone: what do they change that all code shares?"
)
def main(only, quick, out, examples, number, state):
    start = time.time()
    names = [name for name in CALLS if only in name and not (quick and name in SLOW)]
    if state:
        for name, what in touched([name for name in names if name not in NOT_RUN and CALLS[name]]):
            print(f"{name} changes {what}")
        return
    if examples:
        outcomes = []
        worker = Worker()
        for name in names:
            found, failures = (
                search(name, examples, number, worker)
                if name not in NOT_RUN and CALLS[name]
                else ([], [])
            )
            outcomes += found
            print(*failures, sep="\n", end="\n" * bool(failures), flush=True)
        worker.stop()
        print(summary(outcomes, start))
        return
    rows = table(names)
    if out or not (quick or only):
        with open(out or RESULTS, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    for row in rows:
        if row["outcome"] not in ("clear", "right", "argued"):
            print(
                f"{row['outcome']:9} {row['callable']}({row['argument']}: "
                f"{row['kind']})  {row['message']}"
            )
    print(summary((row["outcome"] for row in rows), start))


if __name__ == "__main__":
    main()
