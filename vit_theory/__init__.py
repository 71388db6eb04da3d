__version__ = "0.2.0"

# The arguments' comments belong to what help() and JupyterLab's tooltip say: nbs/16_docstrings.ipynb.
from vit_theory.docstrings import install as _install

_install()
