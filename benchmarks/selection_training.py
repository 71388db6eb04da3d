"""Training many shallow transformers: ours beside what one would otherwise write.

    python benchmarks/selection_training.py [--repeats 9]
    python benchmarks/selection_training.py --profile
        only which operations our step spends its time in
    python benchmarks/selection_training.py --device cuda
        on a GPU: 32 times as many models at once, wall-clock seconds

The same trainings (tokens L, neurons m, batch B; token dimension 10) by four programs, in turn, in
one run, warm, on one thread: ours; a plain nn.Module with a DataLoader, model by model;
torch.func's vmap(grad); JAX's jit(vmap(...)) with lax.scan. JAX is optional: `pip install jax` adds
its row; without it the row says that it is missing. Times are CPU times of the process; the
programs take turns, and the table has the ratio of the best and of the median times.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
import time
from functools import partial
from statistics import median

import click
import torch
from side_by_side import report, save, seconds_of

from vit_theory.selection import ShallowViT, TokenData, fit, initial_model

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a GPU is shared with PyTorch
seconds = partial(seconds_of, clock=time.process_time)


def wall_seconds(call):
    """Seconds until the GPU has finished."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


SIZES = ((20, 50, 20), (40, 100, 32), (100, 200, 32))  # L, m, B
TRIALS = {20: 16, 40: 6, 100: 3}  # models at once, by L
STEPS = {20: 200, 40: 150, 100: 100}
LR = 0.1
SEED = 0
DIM = 10
NAMES = ("W_Q", "W_K", "W_V", "W_O")


def setting(L, m, B, trials, device="cpu"):
    """Five batches of training samples a trial, and initial models."""
    data = TokenData(tokens=L, relevant=int(0.3 * L), confusion=int(0.1 * L), dim=DIM)
    sample = data.sample(5 * B, trials, generator=torch.Generator().manual_seed(SEED))
    model = initial_model(sample.mu, neurons=m, seed=SEED, scale=0.5)
    weights = (getattr(model, name).to(device) for name in (*NAMES, "a"))
    return sample.x.to(device), sample.y.to(device), ShallowViT(*weights)


def ours(x, y, model, B, steps):
    """The package's own fit."""
    return lambda: fit(model, x, y, steps=steps, batch=B, lr=LR)


class Plain(torch.nn.Module):
    """Equation 1 as one writes it for one model."""

    def __init__(self, model, i):
        super().__init__()
        for name in NAMES:
            setattr(self, name, torch.nn.Parameter(getattr(model, name)[i].clone()))
        self.register_buffer("a", model.a[i, 0])

    def forward(self, x):
        q = x @ self.W_Q.T
        k = x @ self.W_K.T
        v = x @ self.W_V.T
        z = (q @ k.transpose(1, 2)).softmax(-1) @ v
        return (torch.relu(z @ self.W_O.T) @ self.a).mean(1)


def loop(x, y, model, B, steps):
    """nn.Module, DataLoader, SGD: one model after another."""

    def run():
        for i in range(min(2, len(x))):  # two models are enough to time; they do not share anything
            net = Plain(model, i).to(x.device)
            optimizer = torch.optim.SGD(net.parameters(), lr=LR)
            loader = torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(x[i], y[i]), batch_size=B, shuffle=True
            )
            done = 0
            while done < steps:
                for xb, yb in loader:
                    optimizer.zero_grad()
                    torch.relu(1 - yb * net(xb)).mean().backward()
                    optimizer.step()
                    done += 1
                    if done == steps:
                        break

    return run


def vmap(x, y, model, B, steps):
    """torch.func.vmap over grad."""
    weights = {name: getattr(model, name) for name in NAMES}
    a = model.a[:, 0]

    def loss(w, a, x, y):
        q = x @ w["W_Q"].T
        k = x @ w["W_K"].T
        v = x @ w["W_V"].T
        z = torch.softmax(q @ k.transpose(1, 2), -1) @ v
        return torch.relu(1 - y * (torch.relu(z @ w["W_O"].T) @ a).mean(1)).mean()

    step = torch.func.vmap(torch.func.grad(loss))
    trial = torch.arange(len(x), device=x.device)[:, None]

    def run():
        w = weights
        for _ in range(steps):
            rows = torch.rand(x.shape[:2], device=x.device).argsort(1)[:, :B]
            slopes = step(w, a, x[trial, rows], y[trial, rows])
            w = {name: w[name] - LR * slopes[name] for name in w}

    return run


def with_jax(x, y, model, B, steps):
    """jit(vmap(train)), each train a lax.scan over the steps."""
    import jax
    import jax.numpy as jnp

    def loss(w, a, x, y):
        q = x @ w["W_Q"].T
        k = x @ w["W_K"].T
        v = x @ w["W_V"].T
        z = jax.nn.softmax(q @ jnp.swapaxes(k, 1, 2), -1) @ v
        return jax.nn.relu(1 - y * (jax.nn.relu(z @ w["W_O"].T) @ a).mean(1)).mean()

    def train(w, a, x, y, key):
        def step(w, key):
            rows = jax.random.permutation(key, len(x))[:B]
            slopes = jax.grad(loss)(w, a, x[rows], y[rows])
            return {name: w[name] - LR * slopes[name] for name in w}, None

        return jax.lax.scan(step, w, jax.random.split(key, steps))[0]

    weights = {name: jnp.asarray(getattr(model, name).cpu().numpy()) for name in NAMES}
    arguments = [jnp.asarray(t.cpu().numpy()) for t in (model.a[:, 0], x, y)]
    keys = jax.random.split(jax.random.key(SEED), len(x))
    compiled = jax.jit(jax.vmap(train))
    return lambda: jax.block_until_ready(compiled(weights, *arguments, keys))


PROGRAMS = {"ours": ours, "loop": loop, "torch vmap(grad)": vmap, "jax jit(vmap(grad))": with_jax}


def flops(L, m, B):
    """Multiplications and additions of the matrix products of our step."""
    return 2 * B * L * (2 * DIM**2 + 4 * L * DIM + 3 * m * DIM)


def gemm_peak(device, seconds):
    """GFLOP/s of one large single-precision product, best of five."""
    n = 1536 if device == "cpu" else 8192
    a = torch.randn(n, n, device=device)
    b = torch.randn(n, n, device=device)
    a @ b
    return 2 * n**3 / min(seconds(lambda: a @ b) for _ in range(5)) / 1e9


def check(x, y, model):
    """Our gradient is that of the plain module."""
    from vit_theory.selection import hinge_gradient

    net = Plain(model, 0)
    torch.relu(1 - y[0] * net(x[0])).mean().backward()
    slopes = hinge_gradient(
        ShallowViT(*(getattr(model, n)[:1] for n in NAMES), model.a[:1]), x[:1], y[:1]
    )[1]
    for name in NAMES:
        torch.testing.assert_close(
            getattr(slopes, name)[0], getattr(net, name).grad, rtol=1e-3, atol=1e-6
        )


def compare(repeats, device):
    """All programs on all sizes, in turn -> rows."""
    clock, many = (seconds, 1) if device == "cpu" else (wall_seconds, 32)
    peak = gemm_peak(device, clock)
    rows = []
    for L, m, B in SIZES:
        trials = many * TRIALS[L]
        steps = STEPS[L]
        x, y, model = setting(L, m, B, trials, device)
        check(x, y, model)
        runs, missing = {}, {}
        for name, program in PROGRAMS.items():
            try:
                runs[name] = program(x, y, model, B, steps)
                runs[name]()  # warm
            except ImportError as error:
                missing[name] = str(error)
                runs.pop(name, None)
        times = {name: [] for name in runs}
        for _ in range(repeats):
            for name, run in runs.items():
                times[name].append(clock(run))
        click.echo(f"L={L}: " + ", ".join(f"{name} {min(t):.3f} s" for name, t in times.items()))
        for name in PROGRAMS:
            done = (2 if name == "loop" else trials) * steps
            row = {"L": L, "m": m, "B": B, "program": name, "models": trials}
            if name in missing:
                rows.append(row | {"note": f"skipped: {missing[name]}"})
                continue
            best = min(times[name]) / done
            own = min(times["ours"]) / (trials * steps)
            row |= {"steps_per_second": round(1 / best), "ours_is_faster_by": round(best / own, 2)}
            row["by_median"] = round(
                median(times[name]) / done / (median(times["ours"]) / (trials * steps)), 2
            )
            row["spread"] = round(max(times[name]) / min(times[name]) - 1, 2)
            if name == "ours":
                row["share_of_gemm_peak"] = round(flops(L, m, B) / best / 1e9 / peak, 3)
            rows.append(row)
    return peak, rows


def profile():
    """Share of the operations of our step in its time, by PyTorch's profiler -> rows; those below 2
    % together."""
    rows = []
    for L, m, B in SIZES:
        run = ours(*setting(L, m, B, TRIALS[L]), B, STEPS[L])
        run()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            run()
        operations = seen.key_averages()
        total = sum(event.self_cpu_time_total for event in operations)
        rest = 1.0
        for event in sorted(operations, key=lambda event: -event.self_cpu_time_total):
            share = event.self_cpu_time_total / total
            if share >= 0.02:
                rest -= share
                name = event.key.removeprefix("aten::")
                calls = round(event.count / STEPS[L], 1)
                rows.append(
                    {
                        "L": L,
                        "m": m,
                        "B": B,
                        "operation": name,
                        "calls_a_step": calls,
                        "share": round(share, 3),
                    }
                )
        rows.append(
            {
                "L": L,
                "m": m,
                "B": B,
                "operation": "all others",
                "calls_a_step": "",
                "share": round(rest, 3),
            }
        )
    return rows


def against_trials():
    """Throughput of ours against the number of models at once."""
    rows = []
    for trials in (1, 4, 16, 64):
        x, y, model = setting(20, 50, 20, trials)
        run = ours(x, y, model, 20, 100)
        run()
        rate = round(trials * 100 / min(seconds(run) for _ in range(5)))
        row = {
            "L": 20,
            "m": 50,
            "B": 20,
            "program": "ours",
            "models": trials,
            "steps_per_second": rate,
        }
        rows.append(row | {"note": "throughput against models at once"})
    return rows


def peak_memory():
    """Largest resident memory of this process so far, MiB (ru_maxrss would be inherited from the
    parent)."""
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def phase_diagram(cells):
    """Trainings of `cells` cells of 64 trials, piece by piece; prints the peak memory in MiB."""
    before = peak_memory()
    for cell in range(cells):
        for first in range(0, 64, 16):
            data = TokenData(tokens=40, relevant=8, confusion=4)
            sample = data.sample(
                512, 16, generator=torch.Generator().manual_seed(cell), first=first
            )
            fit(
                initial_model(sample.mu, first=first),
                sample.x,
                sample.y,
                steps=3,
                batch=512,
                lr=LR,
                first=first,
            )
    print(json.dumps([before, peak_memory()]))


def memory():
    """Peak memory of phase diagrams of two sizes, each in a process of its own."""
    rows = []
    for cells in (1, 4):
        command = [sys.executable, __file__, "--memory", str(cells)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        before, peak = json.loads(text.splitlines()[-1])
        note = (
            f"phase diagram of {cells} cells, N=512: peak {peak:.0f} MiB, "
            f"{before:.0f} MiB before the first cell"
        )
        rows.append(
            {"L": 40, "m": 64, "B": 512, "program": "ours", "models": 64 * cells, "note": note}
        )
    return rows


def jax_version():
    try:
        return importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        return "missing"


@click.command()
@click.option("--repeats", default=9, show_default=True, help="Timings of each program, in turn.")
@click.option("--profile", "profiled", is_flag=True, help="Only write selection_profile.csv.")
@click.option(
    "--memory",
    "cells",
    default=0,
    hidden=True,
    help="Run one phase diagram and print its peak memory.",
)
@click.option("--device", default="cpu", show_default=True, help="cpu (one thread), or cuda.")
def main(repeats, profiled, cells, device):
    """Compare training throughput and write selection_training.csv and .json."""
    if cells:
        return phase_diagram(cells)
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        shares = profile()
        report(shares)
        save("selection_profile", shares, seed=SEED, threads=1)
        if profiled:
            return None
    peak, rows = compare(repeats, device)
    rows += against_trials() + memory() if device == "cpu" else []
    fields = ["L", "m", "B", "program", "models", "steps_per_second"]
    fields += ["ours_is_faster_by", "by_median", "share_of_gemm_peak", "spread", "note"]
    table = [{name: row.get(name, "") for name in fields} for row in rows]
    report(table)
    load = [round(v, 1) for v in os.getloadavg()]
    about = {
        "clock": "CPU time" if device == "cpu" else "wall clock",
        "device": device,
        "gemm_gflops": round(peak, 1),
    }
    about |= {"load_average": load, "jax": jax_version()}
    name = "selection_training" if device == "cpu" else f"selection_training_{device}"
    save(name, table, seed=SEED, threads=1, **about)


if __name__ == "__main__":
    main()
