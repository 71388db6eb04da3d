"""How long the explorers take to answer a control:  python benchmarks/explorers.py [--moves 20]

Each control is moved to several of its values, and every answer (arguments, numbers, picture, code)
is timed: median and worst, as the clock on the wall has it and as CPU time. Training is left out:
it goes in steps, and only its frames are scrubbed.
"""

import time

import click
import numpy as np
import torch

from vit_theory import explore

LIMIT = 0.2  # seconds


def values(control, moves):
    """Values that a control can take, spread over its range."""
    if hasattr(control, "options"):
        return [option for option in control.options if option not in ("typed", "painted")]
    if not hasattr(control, "max"):
        return []
    span = np.linspace(control.min, control.max, min(moves, 6))
    return [type(control.value)(v) for v in span]


def answers(panel, moves):
    """(seconds on the wall, CPU seconds) of every answer."""
    for control in panel.controls.values():
        first = control.value
        for value in [*values(control, moves), first]:
            if value == control.value:
                continue
            start = time.perf_counter(), time.process_time()
            control.value = value
            yield time.perf_counter() - start[0], time.process_time() - start[1]


@click.command(help=__doc__)
@click.option("--moves", default=6, help="at most so many values of a control")
def main(moves):
    torch.set_num_threads(1)
    for name in ("selection", "association", "convolution", "vit"):
        panel = getattr(explore, f"{name}_explorer")().panel
        if name in ("selection", "association"):
            panel.start("Train")  # so that there are frames to scrub
        wall, cpu = np.array(list(answers(panel, moves))).T
        print(
            f"{name}: {len(wall)} answers; median {1000 * np.median(wall):.0f} ms, worst "
            f"{1000 * wall.max():.0f} ms; CPU median {1000 * np.median(cpu):.0f} ms, worst "
            f"{1000 * cpu.max():.0f} ms; under {1000 * LIMIT:.0f} ms of CPU: "
            f"{100 * (cpu < LIMIT).mean():.0f}%",
            flush=True,
        )


if __name__ == "__main__":
    main()
