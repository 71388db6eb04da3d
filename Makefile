# Everything a person needs, on a machine with only python3 (3.11 or later), git and make.
#   make reproduce   environment, install, then every claim of the papers at quick scale -> claims/index.html
#   make test        environment, install, then every check but the slowest
#   make slow        the slowest tests: the site page by page, workers killed, wheels installed, browsers at work
#   make lab         JupyterLab on the notebooks
#   make app         the explorers as pages without code, in a browser on this machine
#   make bench       every benchmark of speed, peers in turn -> results/ (QUICK=1: one round each -> build/bench)
PYTHON ?= python3
# Processes, each with one thread: make reproduce JOBS=8
JOBS ?= 2
BIN := .venv/bin
# The environment's programs first, also for programs that call others by name.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: reproduce test slow lab app bench docs notebooks readme export check evidence hooks first-hour wheel pythons lowest release clean help

help:
	@sed -n '2,7p' Makefile

# pip would translate every file of torch into bytecode, for half a minute; here only what is imported is, once, also where
# PYTHONDONTWRITEBYTECODE is set: there every process would translate it anew, for 6 seconds.
COMPILE := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c "import vit_theory.ledger.cli, vit_theory.images, vit_theory.selection, vit_theory.association"

.venv/run: settings.ini setup.py constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile -e . -c constraints.txt
	$(COMPILE)
	@touch $@

.venv/dev: .venv/run
	$(BIN)/python -m pip install --quiet --no-compile -e '.[dev]' -c constraints.txt
	@touch $@

reproduce: .venv/run
	vit-theory reproduce --out claims --jobs $(JOBS)

test: .venv/dev check
	pytest

slow: .venv/dev
	pytest -m slow

# Style, types, and what the notebooks have stored. That package, README and notebooks are in step is tests/test_sync.py.
check: .venv/dev
	python tools/notebooks.py check
	python tools/notebooks.py stale --check
	python tools/evidence.py judge --check
	ruff check
	lint-imports
	mypy vit_theory

lab: .venv/dev
	jupyter lab nbs

# On this machine only; stop it with Ctrl-C.
app: .venv/dev
	JUPYTER_PATH=tools/voila voila nbs --template=explorers --progressive_rendering=True --Voila.ip=127.0.0.1

# One after the other, as they would disturb each other; each on one thread, its programs in turn.
bench: export BENCH_QUICK := $(QUICK)
bench: .venv/dev
	python benchmarks/selection_training.py $(if $(QUICK),--repeats 1)
	python benchmarks/selection_collapse.py
	python benchmarks/association_training.py
	python benchmarks/association_dynamics.py
	python benchmarks/convolution_paths.py $(if $(QUICK),--rounds 1)
	python benchmarks/convolution_lean.py $(if $(QUICK),--rounds 1)
	python benchmarks/fleet.py
	python benchmarks/images_training.py $(if $(QUICK),,$(if $(shell command -v c++),--compiled))

docs: .venv/dev
	python docs/build.py

# Write the package, run every notebook and store its outputs (twice gives no difference).
notebooks: .venv/dev
	python tools/notebooks.py export
	python tools/notebooks.py run
	python tools/notebooks.py export

export: .venv/dev
	python tools/notebooks.py export

readme: .venv/dev
	python tools/notebooks.py readme

# Judge the committed measurements with the present judges, and draw what the maps and the front page show of them.
evidence: .venv/dev
	python tools/evidence.py judge
	python tools/layout.py
	python tools/pictures.py

# For git in this clone: no commit of notebooks that are not clean, and merges that know cells.
hooks: .venv/dev
	git config core.hooksPath tools/hooks
	git config merge.nbdev-merge.driver '.venv/bin/nbdev_merge %O %A %B %P'

# The README's lines for people without make, in a fresh clone with an environment of its own (a quarter of an hour).
first-hour:
	$(PYTHON) tools/first_hour.py

wheel: .venv/dev
	python -m build --no-isolation

# The wheel in environments of its own, with three claims and the quickest tests in each: other Pythons ...
PYTHONS ?= python3.12 python3.13
pythons: .venv/dev
	python tools/environments.py pythons $(PYTHONS)

# ... and this Python with the lowest versions that settings.ini allows.
lowest: .venv/dev
	python tools/environments.py lowest

# A dry run: refuses with words, or tests everything and builds all that is uploaded into dist/. It tags and uploads nothing.
release: .venv/dev
	python tools/release.py --jobs $(JOBS)

clean:
	rm -rf .venv _docs _proc build dist *.egg-info
