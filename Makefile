# Both commands work on a fresh machine with Python 3.11+ and nothing else installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint bench bench-fleet validate calibrate clean

run: $(VENV)/.installed
	@$(BIN)/optimise cases/chat-7b.yaml

test: $(VENV)/.installed-dev lint
	$(BIN)/pytest -q -n auto --cov --cov-report=term:skip-covered --cov-fail-under=95

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-dev
	$(BIN)/python bench/bench.py
	$(BIN)/python bench/latency.py
	$(BIN)/python bench/bench_batch.py

bench-fleet: $(VENV)/.installed-dev
	$(BIN)/python bench/bench_fleet.py --growth --packing
	$(BIN)/python bench/bench_fleet.py --plain

validate: $(VENV)/.installed
	@$(BIN)/optimise validate

calibrate: $(VENV)/.installed-dev
	$(BIN)/python -m calibration.fit

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/.installed: pyproject.toml $(BIN)/pip
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(BIN)/pip
	$(BIN)/pip install --quiet --editable . --group dev
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage*
