# Everything a person or CI runs. `make help` lists it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
SOURCE ?= mixpanel
SINK ?= delta
REAL := $(patsubst %,tests/integration/bigquery/test_%.py,publish ledger tables types sink erase) tests/integration/bigquery/real
# Each worker goes through a third in order, so that a file's servers start in one of them, and helps the others at the end.
WORKERS := -n 3 --dist worksteal
# No slow test lies among the units, and no other one in the integration: collecting all would cost a worker ten seconds.
# For the same reason the fast tests run in processes that have folders of their own each, and not in workers. They are
# four, as each waits for almost half of its time. Each stays on one core (tests/equipment/one_core.py), two on each:
# the first and the last need about as much of the first core as the others of the second.
FAST := -m 'not slow and not campaign'
# Fast tests make many small files and flush them as a driver does: a sixth of the sinks' CPU on a disk. So
# their folders are in memory, if it has half a gigabyte for them.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 500000 { print "/dev/shm" }')
FAST_PYTEST = $(if $(MEMORY),TMPDIR=$(MEMORY)) CONNECT_TEST_CORE=$(1) $(BIN)/pytest -q -o cache_dir=.pytest_cache/$@ --durations=5 $(FAST)
FIRST := tests/unit/sources
SECOND := $(addprefix tests/unit/,sinks standins demo)
# None of them loads Airflow.
THIRD := tests/conformance $(addprefix tests/unit/,clients shapes stage values polling submit equipment readers)
BESIDE_EACH_OTHER = $(MAKE) --no-print-directory --keep-going --output-sync=target BESIDE=1
SLOW := -m 'slow and not campaign'
# Into build/site; a link or an anchor that leads nowhere fails it. --quiet would, with the warnings, lose the strictness.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/site/mkdocs.yml
# Runs $(1) without a word; what it printed comes in one piece if it fails, with the name of the target.
QUIET = output=$$({ $(1); } 2>&1) || { printf '%s\n' "make $@ failed:" "$$output"; exit 1; }

export PATH := $(CURDIR)/$(BIN):$(PATH)

# Compiled once: tests start hundreds of interpreters, and pytest rewrites every test file.
unexport PYTHONDONTWRITEBYTECODE

# One target at a time, but for the parts of `check` and of `slow`, which run beside each other.
ifndef BESIDE
.NOTPARALLEL:
endif
.PHONY: help demo demo-stop check lint types site fast fast-first fast-second fast-third fast-fourth test slow integration system real campaign mutants benchmark benchmark-long docs format clean

help:  ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(READY): constraints.txt pyproject.toml
	@echo "Making the environment in .venv (about three minutes, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' & \
	pip=$$!; seconds=0; while kill -0 $$pip 2>/dev/null; do sleep 1; seconds=$$((seconds + 1)); \
	[ $$((seconds % 5)) -ne 0 ] || echo "installing for $$seconds s, $$(du -sm .venv | cut -f1) MB in .venv"; done; wait $$pip
	@touch $(READY)

demo: $(READY)  ## Run an example DAG on this machine: stand-in, Airflow, Spark, a table or topic (SOURCE=mixpanel, rest, sql or x_search; SINK=delta, or bigquery and kafka for mixpanel).
	@exec $(BIN)/python -m tests.demo --source "$(SOURCE)" --sink "$(SINK)"

demo-stop: $(READY)  ## Stop what `make demo` left running for you to look at.
	@exec $(BIN)/python -m tests.demo --stop

check: $(READY)  ## Format, lint, the walls between the rooms, types and the site, beside the fast tests.
	@$(BESIDE_EACH_OTHER) --jobs=7 types fast-first fast-second fast-third fast-fourth lint site

lint: $(READY)  ## Format, lint, and the walls between the rooms.
	@$(call QUIET,$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports --no-logo)

types: $(READY)  ## The types of the package, of what plays a vendor, and of the examples.
	@$(call QUIET,$(BIN)/mypy && $(BIN)/mypy docs/examples/*.py)

site: $(READY)  ## The documentation, into build/site.
	@$(call QUIET,$(MKDOCS))

fast: $(READY)  ## The fast tests alone.
	@$(BESIDE_EACH_OTHER) --jobs=4 fast-first fast-second fast-third fast-fourth

fast-first: $(READY)  ## The fast tests of sources.
	@$(call FAST_PYTEST,0) $(FIRST)

fast-second: $(READY)  ## The fast tests of sinks, and of what plays a vendor.
	@$(call FAST_PYTEST,1) $(SECOND)

fast-third: $(READY)  ## The fast tests of the contract, of clients, and of what else needs no Airflow.
	@$(call FAST_PYTEST,1) $(THIRD)

fast-fourth: $(READY)  ## All other fast tests.
	@$(call FAST_PYTEST,0) tests/unit $(addprefix --ignore=,$(FIRST) $(SECOND) $(THIRD))

# The last line of a run that had no MySQL says so.
test: check slow  ## Everything: the above, then real Spark and a real Airflow (WITHOUT_MYSQL=1 where MySQL cannot be had).
	@[ "$$WITHOUT_MYSQL" != 1 ] || echo "WITHOUT_MYSQL=1: nothing was tested on MySQL itself"

# Each prints in one piece when it ends, and the last lines name the one that failed.
slow: $(READY)  ## Real Spark beside a real Airflow, which has to wait for most of what it does.
	@$(BESIDE_EACH_OTHER) --jobs=2 integration system

integration: $(READY)  ## Real Spark, Kafka, PostgreSQL, MariaDB, MySQL, stores and a BigQuery emulator.
	@$(BIN)/python -m tests.equipment.sql.mysql_files
	@$(BIN)/pytest -q $(WORKERS) --durations=25 $(SLOW) tests/integration tests/conformance

system: $(READY)  ## A real Airflow that runs whole pipelines.
	@$(BIN)/pytest -q --durations=15 $(SLOW) tests/system

real: $(READY)  ## What a real BigQuery proves: GOOGLE_CLOUD_PROJECT_FOR_TESTS=my-project make real (its own datasets, dropped at the end).
	@test -n "$$GOOGLE_CLOUD_PROJECT_FOR_TESTS" || { echo "GOOGLE_CLOUD_PROJECT_FOR_TESTS is not set: name a Google Cloud project in which application default credentials may make datasets and run jobs" >&2; exit 2; }
	@$(BIN)/pytest -q -m slow tests/conformance $(REAL)

campaign: $(READY)  ## Many examples, thirty days at once, every kind of backfill, then the long kill runs: seeded, resumable (CONNECT_CAMPAIGN_SINK=kafka CONNECT_CAMPAIGN_RUNS=200 CONNECT_CAMPAIGN_SEED=1).
	@CONNECT_TEST_EXAMPLES=1000 $(BIN)/pytest -q $(WORKERS) -m 'hypothesis and not slow'
	@CONNECT_CATCHUP_DAYS=30 $(BIN)/pytest -q -s -m 'campaign or catchup'

mutants: $(READY)  ## Break the product in the places of tests/equipment/breaks, and see that tests find each (ONLY=name for one of them).
	@$(BIN)/python -m tests.equipment.breaks $(if $(ONLY),--only "$(ONLY)")

benchmark: $(READY)  ## Print the speed and memory figures beside curl's. BASE=<commit> compares with a commit by turns, and fails if a figure is worse.
	@$(BIN)/python tests/benchmarks/$(if $(BASE),compare.py --base "$(BASE)",day.py)

LONG := day.py kafka.py bigquery.py delta_days.py delta_merge.py kafka_ledger.py kafka_turns.py sql.py many_tables.py rest.py parse.py page.py
benchmark-long: $(READY)  ## Print all figures that the pages name: growth of ledgers, each sink and source (an hour).
	@for name in $(LONG); do echo "== $$name"; $(BIN)/python tests/benchmarks/$$name || exit 1; done

docs: $(READY)  ## Write docs/options.md, and the marked parts of other pages, from the code; build the site into build/site.
	@$(BIN)/python docs/make_options.py
	@$(BIN)/python docs/make_regions.py
	@$(call QUIET,$(MKDOCS))

format: $(READY)  ## Format the code.
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

clean:  ## Delete what the other targets made.
	@rm -rf .venv .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
