# Everything a checkout needs: plain Python with venv and pip, this file, and requirements.lock.
# Rust compiles the decoder where it is found.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

CRATE := millpond/records/scan
LIBRARY := millpond/records/_scan.so
# What the build of a wheel uses as well. Empty where no cargo runs: rustup leaves one that has no toolchain.
CARGO := $(if $(shell cargo --version 2>/dev/null),CARGO_TARGET_DIR=build/scan cargo)
CRATE_FLAGS := --locked --offline --manifest-path $(CRATE)/Cargo.toml

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test thorough coverage scan conformance hoglake mutation lint fmt bench docs lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  PYTHON=$(PYTHON) makes the environment, VENV=$(VENV) holds it, ARGS=... goes to demo, test and bench."

install: $(INSTALLED) ## Create the environment and install from requirements.lock, once

demo: $(INSTALLED) ## Kafka to lakehouse on this machine, checked to the last row
	@$(BIN)/millpond demo $(ARGS)

test: $(INSTALLED) ## Unit, integration and end-to-end tests
	@$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

coverage: $(INSTALLED) ## Which lines the tests of one process and of the service reach; takes twice their time
	@$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow" --cov --cov-report=term-missing:skip-covered $(ARGS)

thorough: $(INSTALLED) ## Twenty times as many odd records as `make test` sends through the decoder
	@MILLPOND_EXAMPLES=100000 $(BIN)/python -m pytest -n auto --dist loadgroup tests/unit/records/test_any_bytes.py tests/unit/test_two_ways.py $(ARGS)

scan: ## Tests of the crate that decodes records, by cargo
ifdef CARGO
	$(CARGO) test $(CRATE_FLAGS) $(ARGS)
else
	@echo "scan: there is no cargo on the PATH to test $(CRATE) with; install Rust" >&2; exit 1
endif

conformance: ## The live suites of pyhoglake itself against our catalog, on each Python found
	@PYTHON=$(PYTHON) VENV=$(VENV) .ci/conformance

hoglake: $(INSTALLED) ## Integration tests against the published hoglake server (needs Docker)
	@$(BIN)/python -m pytest --hoglake-stack --timeout 1200 tests/hoglake_stack tests/integration $(ARGS)

mutation: ## Break the sink in every small way, and see what no unit test notices
	@$(MAKE) --no-print-directory install VENV=.venv-mutation
	@.venv-mutation/bin/python -m pip install --quiet --disable-pip-version-check mutmut==3.8.1
	@nice .venv-mutation/bin/python .ci/mutate.py $(ARGS)

lint: $(INSTALLED) ## ruff, its formatter and mypy, rustfmt and clippy, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
ifdef CARGO
	$(CARGO) fmt --check --manifest-path $(CRATE)/Cargo.toml
	$(CARGO) clippy --all-targets $(CRATE_FLAGS) -- -D warnings
else
	@echo "lint: there is no cargo on the PATH, so that nothing looks at $(CRATE)"
endif

fmt: $(INSTALLED) ## Format, and fix what ruff can fix
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
ifdef CARGO
	$(CARGO) fmt --manifest-path $(CRATE)/Cargo.toml
endif

bench: $(INSTALLED) ## Run every measurement in bench/
	@set -- bench/*.py; \
	if [ ! -e "$$1" ]; then echo "bench: there is no bench/*.py to run" >&2; exit 1; fi; \
	for script; do echo "== $$script"; $(BIN)/python "$$script" $(ARGS) || exit; done

docs: $(INSTALLED) ## Write docs/configuration.md from the declarations
	$(BIN)/python -m millpond.config_reference > docs/configuration.md

lock: ## Resolve again and rewrite requirements.lock (needs uv)
	@$(PYTHON) .ci/lock.py $(ARGS)

clean: ## Remove the environments made here, caches and build products
	@for made in $(VENV) .venv-*; do if [ -e "$$made/.installed" ]; then rm -rf "$$made"; fi; done
	@rm -rf $(LIBRARY) $(LIBRARY).* $(CRATE)/target
	@rm -rf .ci/bin .ci/cache build dist htmlcov coverage.xml .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find millpond tests bench -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp comes last: an installation that broke off is not taken for a finished one. No build isolation,
# because an isolated build would fetch hatchling by itself, outside the lock. The build compiles the crate where
# there is a cargo; pip keeps what it says about that to itself.
$(INSTALLED): requirements.lock pyproject.toml $(wildcard $(CRATE)/*.* $(CRATE)/src/*.rs $(CRATE)/src/*/*.rs)
	@command -v $(PYTHON) >/dev/null || { echo "millpond needs Python 3.11 or newer, and $(PYTHON) is not there; try: make PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("millpond needs Python 3.11 or newer, and $(PYTHON) is %d.%d; try: make PYTHON=python3.13" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@[ -e $(LIBRARY) ] || echo "installed without the compiled decoder (slower, all else is the same);" \
		"what it lacks is told by: MILLPOND_REQUIRE_SCAN=1 make -B install"
	@touch $(INSTALLED)
