"""The run-time check of annotations that conftest.py switches on."""

from beartype import BeartypeConf, beartype

# As every type checker has it, an int will do where a float is asked for.
check = beartype(conf=BeartypeConf(is_pep484_tower=True))
