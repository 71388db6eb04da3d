"""Before anything imports the package: shapes and types of public functions are checked at run time, and torch stays small."""

import os

import jaxtyping
import torch

jaxtyping.install_import_hook("vit_theory", "typecheck.check")
# Results do not depend on it; small models are fastest so, and the machine is shared with the browser and build tests.
torch.set_num_threads(min(2, os.cpu_count() or 1))
