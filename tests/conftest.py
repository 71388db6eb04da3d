"""Before anything imports the package: shapes and types of public functions are checked at run time, and torch stays small."""

import jaxtyping
import torch

jaxtyping.install_import_hook("vit_theory", "typecheck.check")
# Small models are fastest so, and a busy machine does not slow them further.
torch.set_num_threads(1)
