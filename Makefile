# firstlight: everything a person or CI does with a checkout. `make help` lists it.
# All of it lives in .venv; a target installs what it needs, and does so again only when a lock file changed.

PYTHON ?= python3
ARGS ?=
ROUNDS ?= 5
SEED ?= 1
SECONDS ?= 60
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
UV := 0.13.9
PIP_AUDIT := 2.10.1
# An environment works only where it was made; in a moved or copied checkout it would run the old place's code.
PLACE := $(VENV)/.place-$(shell pwd | cksum | cut -d ' ' -f 1)

.DEFAULT_GOAL := help
.PHONY: help demo test test-host test-vllm chaos fuzz cases lint audit format bench bench-short bench-peers bench-forecast screenshot lock clean
.SILENT:
.DELETE_ON_ERROR:

help:  ## list the targets
	awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.runtime  ## open the dashboard on the demo load (ARGS="--speed 60")
	$(BIN)/firstlight demo $(ARGS)

test: $(VENV)/.dev  ## run the whole suite (ARGS="-k journal"); host tests that cannot run here say why
	$(BIN)/python -m pytest $(ARGS)

test-host: $(VENV)/.dev  ## only the tests on a real systemd host; they fail where they cannot run
	FIRSTLIGHT_REQUIRE_HOST=1 $(BIN)/python -m pytest -m "host and not vllm" $(ARGS)

test-vllm: $(VENV)/.dev  ## a real vLLM on this machine's CPU as a service on the real host (2.5 GB, minutes)
	FIRSTLIGHT_REQUIRE_HOST=1 FIRSTLIGHT_VLLM=1 $(BIN)/python -m pytest -m vllm $(ARGS)

chaos: $(VENV)/.dev  ## faults on the real host, in many orders (ROUNDS=5 SEED=1); the suite has one round of it
	FIRSTLIGHT_REQUIRE_HOST=1 FIRSTLIGHT_CHAOS_ROUNDS=$(ROUNDS) FIRSTLIGHT_CHAOS_SEED=$(SEED) \
	  $(BIN)/python -m pytest tests/chaos $(ARGS)

fuzz: $(VENV)/.dev  ## every decoder fed with whatever may come (SECONDS=60 each, ARGS="export --seed 1")
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

cases: $(VENV)/.dev  ## explain every recorded situation and compare it with what is known to be true
	$(BIN)/python tests/cases/run.py $(ARGS)

lint: $(VENV)/.dev audit  ## ruff, mypy --strict, the direction of imports, known holes in dependencies
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check . || { echo "make format puts these files right"; exit 1; }
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo
	echo "lint: no complaint"

audit: $(VENV)/.dev $(VENV)/audit  ## what is installed is what the lock pins, without known holes as far as one can ask
	$(BIN)/python -m tests.audit $(ARGS)

format: $(VENV)/.dev  ## put the formatting right
	$(BIN)/ruff check --quiet --fix . || true
	$(BIN)/ruff format --quiet .

bench: $(VENV)/.dev  ## figures as ratios to a floor measured in the same run (ARGS="paint journal")
	$(BIN)/python -m bench $(ARGS)

# A time never fails it; lines lost, doubled or never shown, growth, and what could not run do.
bench-short: $(VENV)/.dev  ## the load benchmarks and the peers with less of everything (five minutes)
	FIRSTLIGHT_REQUIRE_HOST=1 $(BIN)/python -m bench --short
	$(BIN)/python -m bench.peers --short

bench-peers: $(VENV)/.dev  ## beside journalctl -f, lnav and toolong, on one journal and one flood (ten minutes)
	$(BIN)/python -m bench.peers $(ARGS)

bench-forecast: $(VENV)/.dev  ## error of the forecast over all recordings (TIMELINES=FILE: over that file)
	$(BIN)/python -m bench.forecast $(if $(TIMELINES),"$(TIMELINES)") $(ARGS)

screenshot: $(VENV)/.dev  ## draw the demo as docs/watch.svg, the picture in the README
	$(BIN)/python -m bench.screenshot docs/watch.svg

lock: $(VENV)/lock  ## write the lock files anew from pyproject.toml
	for wanted in "requirements.lock" "requirements-web.lock --extra web --constraints requirements.lock" \
	    "requirements-dev.lock --group dev --extra web --constraints requirements-web.lock"; do \
	  $(VENV)/lock/bin/uv pip compile pyproject.toml --group build --output-file $$wanted \
	    --universal --python-version 3.11 --generate-hashes --no-header --annotation-style line --quiet $(ARGS) \
	    || exit 1; \
	done

clean:  ## remove all that was made here, .venv included
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache snapshot_report.html
	find . -name __pycache__ -prune -exec rm -rf {} +

$(PLACE):
	command -v $(PYTHON) >/dev/null || { echo "firstlight needs Python 3.11 or later: apt-get install python3 python3-venv"; exit 1; }
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "firstlight needs Python 3.11 or later, and $(PYTHON) is $$($(PYTHON) -V 2>&1): make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make environments: apt-get install python3-venv"; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	touch $@

# --no-build-isolation: the build backend is in the lock too.
$(VENV)/.runtime: requirements.lock pyproject.toml $(PLACE)
	echo "installing firstlight into $(VENV) …"
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	echo "installing what tests and lint need …"
	$(PIP) install --require-hashes --requirement requirements-dev.lock
	touch $@

$(VENV)/audit: $(PLACE)
	$(PYTHON) -m venv $@
	$@/bin/python -m pip --quiet --disable-pip-version-check install pip-audit==$(PIP_AUDIT) || rm -rf $@

$(VENV)/lock: $(PLACE)
	$(PYTHON) -m venv $@
	$@/bin/python -m pip --quiet --disable-pip-version-check install uv==$(UV)
	touch $@
