# Every command sets up what it needs by itself, inside this folder, and nothing twice.
PYTHON3 ?= python3
PYTHON := .venv/bin/python
# Extra words for the command, for example: make test ARGS="tests/unit -k ring"
ARGS ?=
KILLS ?= 1000
ROUNDS ?= 1000

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-quick test-long faults ui lint format docs bench clean distclean browser postgres

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## Python environment, Java, Delta's jars and those for S3; the others call it
	@$(PYTHON3) tools/python_env.py
	@$(PYTHON) tools/java_and_jars.py

demo: setup ## run the pipeline through Airflow over generated events and show what rebalancing brought
	@$(PYTHON) -m rebalance.demo $(ARGS)

test: lint browser postgres ## style, types and every test
	@$(PYTHON) tools/run_tests.py $(ARGS)

test-quick: setup ## the tests without Spark and Airflow
	@$(PYTHON) tools/run_tests.py --quick

test-long: lint browser postgres ## all of make test with more cases, ten intervals for every planner, a kill at every moment
	@REBALANCE_TEST_BUDGET=long $(PYTHON) tools/run_tests.py $(ARGS)

faults: setup ## a thousand processes killed at random moments, a thousand races, hours; fewer: make faults KILLS=50 ROUNDS=50
	@REBALANCE_KILLS=$(KILLS) REBALANCE_ROUNDS=$(ROUNDS) $(PYTHON) tools/run_tests.py -s tests/faults/test_random_*.py tests/faults/test_race_rounds.py \
		tests/spark/test_drivers_race.py $(ARGS)

ui: setup ## Airflow's pages on the demo's data; Ctrl-C stops them
	@$(PYTHON) tools/ui.py $(ARGS)

lint: setup ## style, types and which way imports go
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports --no-logo

format: setup ## put the style right where a machine can
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

docs: setup ## the reference from the code, and the documentation as a site in .local/site
	@$(PYTHON) tools/reference.py
	@$(PYTHON) tools/make_site.py

bench: setup ## measurements; one of them: make bench ARGS=planners
	@for file in tests/bench/bench_*$(ARGS)*.py; do echo "== $$file"; $(PYTHON) -m tests.bench.$$(basename $$file .py) || exit 1; done

clean: ## remove what runs left behind (.local) and tools' caches
	rm -rf .local .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist spark-warehouse
	find rebalance jobs dags tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## and everything fetched (.venv, .cache)
	rm -rf .venv .cache

# Only a system package manager can give a browser, and PostgreSQL's server.
browser postgres:
	@sh tools/$@.sh
