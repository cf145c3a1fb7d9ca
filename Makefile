# The packing workbook. Every target sets up what it needs; `make lab` is the way in.

PYTHON ?= python3
PORT ?= 8888
LAB_ARGS ?=
TEST_ARGS ?=
BROWSER ?= yes
TORCH ?=
TORCH_INDEX ?= https://download.pytorch.org/whl/$(TORCH)
CONSTRAINTS ?= constraints.txt
SPEAKER ?=
PDF ?=
REPOSITORY ?=

PY := .venv/bin/python
LOG := .venv/install.log
PIP := $(PY) -m pip install --disable-pip-version-check --retries 2 $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
OFFLINE := 'NewConnectionError|ConnectTimeout|name resolution|Network is unreachable|from versions: none'
PYTHONS := $(shell sed -n 's/^requires-python = "\(.*\)"/\1/p' pyproject.toml)
FITS := import re, sys; low, high = [tuple(map(int, one.split("."))) for one in re.findall("[0-9.]+", "$(PYTHONS)")]; \
  sys.exit(not low <= sys.version_info[:3] < high)
CHAPTERS = $(sort $(wildcard notebooks/*.ipynb))
NOTEBOOKS = $(CHAPTERS) $(sort $(wildcard notebooks/solutions/*.ipynb))
BENCHMARKS = packing plans nnls model distributed sorting scaling compiling pack_dataset leaks audit balance groups trees pairs race
LIBRARY = $(addprefix tests/,lengths packing work batches model tools)

.PHONY: help setup setup-test lab test test-all test-library mutants bench bench-gpu notebooks figures slides talk site clean browser
.DELETE_ON_ERROR:

help:
	@echo "make lab        open your copy of the workbook, lab/, in JupyterLab (PORT=8888, LAB_ARGS=…)"
	@echo "make test       lint, types, unit, notebook and browser tests (TEST_ARGS=…, BROWSER=no)"
	@echo "make test-all   every combination: quick=False, all in the browser, every family of models"
	@echo "make test-library  in a fresh clone, with other packages than the pinned: CONSTRAINTS=FILE, or CONSTRAINTS= for the newest"
	@echo "make mutants    mutation tests of the packing code: small changes that no test sees; takes hours, can be resumed"
	@echo "make bench      measure packlib against its peers"
	@echo "make bench-gpu  padded against packed BERT on a GPU (without .venv: by PYTHON=python3)"
	@echo "make notebooks  run all notebooks in place, and bring the minutes in README and INSTRUCTORS up to date"
	@echo "make figures    every figure as SVG and PNG, 16:9, in figures/"
	@echo "make slides     a deck for each notebook, one HTML file that needs no network, in slides/ (PDF=yes)"
	@echo "make talk       a talk of 22 minutes made of them, slides/talk.html (SPEAKER='who, where, when', REPOSITORY=owner/name)"
	@echo "make site       a web site of all notebooks that needs no network, in site/ (REPOSITORY=owner/name: copies that Colab and Binder run)"
	@echo "make setup      install what the notebooks need into .venv, nothing else"
	@echo "                without a GPU: TORCH=cpu takes PyTorch's build for the CPU; cu126 and others of its names work, too"
	@echo "make setup-test what make test and make site need as well"
	@echo "make clean      remove .venv and caches; your work in lab/ and out/ stays"

setup: .venv/.ready
	@echo "Ready: make lab opens the workbook."

setup-test: .venv/.test .venv/.site

# What pip says goes to a log; the reader gets one sentence. $(1): arguments, $(2): what they install
define install
	@echo "Installing $(2) (the first time takes minutes) …"
	@$(PIP) $(1) >$(LOG) 2>&1 || { \
	  if grep -qE $(OFFLINE) $(LOG); then \
	    echo "make: no network: pip cannot reach its package index. Connect, then run make again (see $(LOG))." >&2; \
	  else \
	    echo "make: pip could not install $(2): $$(grep -m 1 -i '^error' $(LOG) || echo 'no reason given') (see $(LOG))." >&2; \
	  fi; exit 1; }
endef

# From an index of PyTorch's own, which has each build by its name. It is asked for nothing else, and may not answer.
define install_torch
	@echo "Installing PyTorch for $(TORCH) …"
	@$(PIP) --retries 1 --timeout 15 --no-deps --index-url $(TORCH_INDEX) torch >.venv/torch.log 2>&1 || \
	  echo "make: pip got no PyTorch from $(TORCH_INDEX) (see .venv/torch.log): it takes the usual build," \
	    "which on Linux brings several GB for CUDA." >&2
endef

.venv/.ready: pyproject.toml $(CONSTRAINTS)
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: there is no $(PYTHON): packlib needs Python $(PYTHONS); name one with make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c '$(FITS)' || { \
	  echo "make: $$($(PYTHON) --version 2>&1) does not fit: packlib needs Python $(PYTHONS); name one with make PYTHON=…" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "make: $(PYTHON) has no venv: install it, on Debian and Ubuntu with: sudo apt-get install python3-venv" >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(if $(TORCH),$(install_torch))
	$(call install,--editable '.[train$(comma)lab$(comma)hub]',packlib and its packages into .venv)
	@# JupyterLab would ask whether it may fetch its news
	@$(PY) -m jupyterlab.labextensions disable --level=sys_prefix @jupyterlab/apputils-extension:announcements >>$(LOG) 2>&1
	@touch $@

comma := ,

.venv/.test: .venv/.ready
	$(call install,--editable '.[test]',what the tests need)
	@touch $@

.venv/.site: .venv/.ready
	$(call install,--editable '.[site]',what the web site needs)
	@touch $@

.venv/.bench: .venv/.test
	$(call install,--editable '.[bench]',the packers that packlib is compared with)
	@touch $@

# The first time it opens the tour; later it opens what the learner had open.
lab: .venv/.ready
	@$(PY) -m packbook.run.copies notebooks lab
	@$(PY) -m jupyterlab --ServerApp.root_dir=lab --port=$(PORT) $(if $(filter 0,$(shell id -u)),--allow-root) \
	  $(if $(wildcard lab/00_tour.ipynb),,--LabApp.default_url=/lab/tree/00_tour.ipynb) $(LAB_ARGS)

test: .venv/.test .venv/.site $(if $(filter yes,$(BROWSER)),browser)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m codespell_lib
	@$(PY) -m mypy --no-error-summary
	@$(PY) -m pytest -n 2 --dist loadscope $(if $(filter yes,$(BROWSER)),,-m "not browser") $(TEST_ARGS)

test-all: export PACKLIB_ALL = yes
test-all: test

test-library: .venv/.test
	@$(PY) -m pytest -n 2 --dist loadscope $(LIBRARY) $(TEST_ARGS)

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Chromium for the browser test …" \
	    && apt-get -qq update >/dev/null && apt-get -qq install -y chromium >/dev/null 2>&1; } || { \
	  echo "make: the browser test needs Chromium: install it (sudo apt-get install chromium) or say BROWSER=no." >&2; exit 1; }

.venv/.mutants: .venv/.test
	$(call install,--editable '.[mutants]',mutmut into .venv)
	@touch $@

# resumable; make mutants MUTANTS='packlib.packing.greedy.*' tries the changes of one file
mutants: .venv/.mutants
	@PATH="$(CURDIR)/.venv/bin:$$PATH" mutmut run $(MUTANTS)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) data/record.py mutants

bench: .venv/.bench
	@for name in $(BENCHMARKS); do $(PY) data/record.py $$name || exit 1; done

# A machine with a GPU often has its own torch that fits its drivers: without a .venv that one is used, and this folder as
# it is, without installing it.
GPU_PY = $(if $(wildcard .venv/.ready),$(PY),$(PYTHON))
bench-gpu:
	@$(GPU_PY) -c 'import torch, transformers' 2>/dev/null || { \
	  echo "make: $(GPU_PY) has no torch and transformers: name one that has with make bench-gpu PYTHON=…" >&2; exit 1; }
	@PYTHONPATH="$(CURDIR):$(CURDIR)/notebooks:$$PYTHONPATH" $(GPU_PY) data/record.py model gpu

notebooks: .venv/.ready
	@$(PY) -m packbook.run.execution $(NOTEBOOKS)
	@$(PY) -m packbook.run.minutes
	@$(PY) -m packbook.publish.records

figures: .venv/.ready
	@$(PY) -m packbook.publish.gallery figures $(CHAPTERS)

# Chromium prints a deck, a slide a page, and not before its letters are there. $(1): the names of decks
CHROMIUM = $(firstword $(shell command -v chromium chromium-browser google-chrome))
define as_pdf
@test -n "$(CHROMIUM)" || { echo "make: a PDF needs Chromium: install it (sudo apt-get install chromium)." >&2; exit 1; }
@for deck in $(1); do \
  $(CHROMIUM) --headless --no-sandbox --disable-gpu --no-pdf-header-footer --virtual-time-budget=10000 \
    --print-to-pdf=slides/$$deck.pdf "file://$(CURDIR)/slides/$$deck.html" >/dev/null 2>&1 && echo slides/$$deck.pdf || exit 1; done
endef

slides: figures
	@$(PY) -m packbook.publish.slides slides figures $(CHAPTERS) --speaker "$(SPEAKER)"
	$(if $(PDF),$(call as_pdf,$(notdir $(CHAPTERS:.ipynb=))))

talk: figures
	@$(PY) -m packbook.publish.talk slides/talk.html figures --speaker "$(SPEAKER)" \
	  --address "$(if $(REPOSITORY),https://github.com/$(REPOSITORY))"
	$(if $(PDF),$(call as_pdf,talk))

site: .venv/.site
	@$(PY) -m packbook.publish.website.building site $(if $(REPOSITORY),--repository $(REPOSITORY))

clean:
	rm -rf .venv build dist mutants .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find packlib tests data notebooks -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf
