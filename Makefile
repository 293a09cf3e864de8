# elastipod: `make demo` shows what it does, `make test` shows that it works.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := uv pip compile --python-version 3.11 --generate-hashes --no-header --quiet
# The images have what the tests ran with.
IMAGES_LOCK := $(LOCK) --python-platform linux --no-annotate --constraints requirements/dev.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench quality savings pictures vm cluster kubernetes images images-lock docs lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv from the locked dependencies

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "elastipod needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) can not make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV) from requirements/dev.txt (a minute, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## the whole system on this machine, in 90 seconds
	@$(BIN)/elastipod demo --report build/report.html $(ARGS)

test: setup ## all tests that this machine allows
	@$(BIN)/python -m pytest -n auto $(ARGS)

check: setup ## style, types, import contracts, generated docs
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@told=$$($(BIN)/lint-imports --no-cache) || { echo "$$told" >&2; exit 1; }
	@$(BIN)/python -m tests.docs --check

bench: setup ## speed and memory, each figure with its ratio to a stated floor
	@$(BIN)/python -m bench $(ARGS)

quality: setup ## the recommender against other systems on recorded usage, into docs/quality.md (TRACES=folder)
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench.quality $(or $(TRACES),$(firstword $(wildcard traces ../shared/traces)))

savings: setup ## what recorded jobs and services reserve, three ways, into docs/savings.md (TRACES=folder)
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench.savings $(or $(TRACES),$(firstword $(wildcard traces ../shared/traces) bench/traces))

pictures: setup ## the boards drawn into docs/pictures, in four minutes (needs Prometheus and Chromium)
	@$(BIN)/python -m tests.dashboards.pictures docs/pictures

vm: setup ## the spike tests and a real node in virtual machines with cgroup v2 (needs qemu; the node also root)
	@$(BIN)/python -m pytest -m vm tests/node $(ARGS)
	@$(BIN)/python -m pytest -m vmcluster tests/kubernetes $(ARGS)
	@ELASTIPOD_CGROUP_DRIVER=cgroupfs $(BIN)/python -m pytest -m "vmcluster and drivers" tests/kubernetes $(ARGS)

cluster: setup ## tests in a real cluster with a node on this machine (needs root and `make kubernetes`)
	@$(BIN)/python -m pytest -m cluster tests/kubernetes/proofs $(ARGS)
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m cluster tests --ignore tests/kubernetes/proofs $(ARGS)

kubernetes: setup ## build the programs of a real cluster that are missing (needs Go; a quarter of an hour, once)
	@$(BIN)/python -m tests.kubernetes.binaries $(ARGS)

images: setup ## the container images, into build/images (needs Debian's apt; no engine, no root)
	@$(BIN)/python -m images

images-lock: setup ## lock the images' Debian packages anew
	@$(BIN)/python -m images lock

docs: setup ## write docs/settings.md anew from the code
	@$(BIN)/python -m tests.docs

lock: setup ## lock the dependencies anew (needs uv)
	@$(LOCK) --universal --upgrade --extra dev pyproject.toml -o requirements/dev.txt
	@$(IMAGES_LOCK) --extra recommender --extra updater pyproject.toml -o requirements/elastipod.txt
	@$(IMAGES_LOCK) requirements/node.in -o requirements/node.txt
	@echo hatchling | $(IMAGES_LOCK) - -o requirements/build.txt

clean: ## remove what setup made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
