# Everything a checkout needs. `make` alone lists the targets.
# uv is used where it is installed; without it venv and pip do the same from the same lock.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
AUDIT := .venv-audit/bin/pip-audit

# Two processes more than there are cores: with one more, a fifth of the cores waited.
PROCESSES := $(shell n=$$(($$(getconf _NPROCESSORS_ONLN) + 2)); echo $$((n < 4 ? n : 4)))
PARALLEL := -n $(PROCESSES) --dist worksteal

# A process that may not keep what it compiled compiles it again at each start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo audit test test-fast check coverage matrix compiled lint types imports bench proofs perf paths ratchet chaos fuzz mutants nightly spec registry dockets errors openapi ledger baseline revision reference proto blocking deploy-check lock release clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## Install everything into .venv

$(STAMP): pyproject.toml workers/client/pyproject.toml uv.lock deploy/requirements.txt
	@if command -v uv >/dev/null 2>&1; then \
		uv sync --quiet --locked; \
	else \
		test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV); \
		$(BIN)/python -m pip install --quiet --require-hashes -r deploy/requirements.txt; \
		$(BIN)/python -m pip install --quiet --no-deps -e . -e workers/client; \
	fi
	@touch $@

demo: $(STAMP) ## The main job: everything started, real dockets ingested, the record verified
	@$(BIN)/rotulus demo $(DOCKETS) $(ARGS)

test: $(STAMP) ## The tests, in up to four processes
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-fast: $(STAMP) ## What is quick of the tests, with few examples and without PostgreSQL
	@HYPOTHESIS_PROFILE=fast $(BIN)/python -m pytest $(PARALLEL) -m "not slow" -k "not postgres" $(ARGS)

check: lint types imports test coverage ## What CI runs, and the lines that the fast tests run

# Before Python 3.12 a line that is counted costs about as much again, so that the fast tests of the
# rules are counted and no test runs for it twice but these.
coverage: $(STAMP) ## Which share of the lines of each package its fast tests run: ARGS="--cov-report=term-missing"
	@COVERAGE_FILE=.coverage COVERAGE_CORE=$$($(BIN)/python -c "import sys; print('sysmon' if sys.version_info >= (3, 12) else 'ctrace')") \
		HYPOTHESIS_PROFILE=fast $(BIN)/python -m pytest $(PARALLEL) -m "not slow" -k "not postgres" \
		tests/kernel tests/queues tests/actors \
		--cov=kernel --cov=queues --cov=actors --cov-report= $(ARGS)
	@for package in kernel queues actors; do \
		printf '%-8s %3s %% of lines\n' $$package "$$($(BIN)/coverage report --format=total --include="$$package/*")"; \
	done; rm -f .coverage

matrix: ## The fast tests on each Python from 3.11 to 3.14 that is here, in an environment of its own each
	@failed=; for version in 3.11 3.12 3.13 3.14; do \
		python=; for candidate in $$(uv python find --no-python-downloads $$version 2>/dev/null) \
				"$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python python$$version; do \
			"$$candidate" -c "" 2>/dev/null && python=$$candidate && break; \
		done; \
		test -n "$$python" || { echo "Python $$version: not here"; continue; }; \
		echo "Python $$version: $$python"; \
		$(MAKE) --no-print-directory test-fast PYTHON="$$python" VENV=.venv-$$version \
			UV_PYTHON="$$python" UV_PROJECT_ENVIRONMENT=.venv-$$version \
			|| failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

# Each process of the tests would compile what no other has compiled before it began.
compiled: $(STAMP)
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/python -m tests.dead_code

types: $(STAMP)
	@$(BIN)/mypy

imports: $(STAMP)
	@$(BIN)/lint-imports

bench: $(STAMP) ## The benchmarks, each figure with its ratio to a peer of the same run
	@for name in canonical landscape purge pipeline runtime_run thoughts routing bindings belief kernel gateways fleet bytes http principals authority cascade queues replay proofs backup; do $(BIN)/python -m tests.bench.bench_$$name $(ARGS) || exit 1; done

proofs: $(STAMP) ## Random proofs, honest and mutated, before every verifier: ARGS="--cases 100000 --rows 65536 --seed 6962"
	@$(BIN)/python -m tests.proof_verifiers $(ARGS)

perf: $(STAMP) ## This tree beside another commit, bench by bench, by turns: ARGS="--against COMMIT --pairs 3 --only kernel"
	@$(BIN)/python -m tests.bench.perf $(ARGS)

paths: $(STAMP) ## Functions, files and changes of room on the path of an elimination, an operation, an item, a frame
	@$(BIN)/python -m tests.bench.call_paths $(ARGS)

ratchet: $(STAMP) ## Count what a request costs, and lower the bounds that tests hold: ARGS="--raise job.calls"
	@$(BIN)/python -m tests.ratchet.bounds $(ARGS)

chaos: $(STAMP) ## A fleet through a seeded schedule of faults: ARGS="--seed N --shape cluster --requests 100000 --minutes M"
	@$(BIN)/python -m tests.chaos.run $(ARGS)

fuzz: $(STAMP) ## A fleet under hostile requests and values: ARGS="--seed N --requests R --minutes M --replay FILE"
	@$(BIN)/python -m tests.fuzz.run $(ARGS)

mutants: $(STAMP) ## Change the rules one by one, and see which change no test notices: ARGS="--only kernel/transaction/checks --sample 200 --seed 1"
	@$(BIN)/python -m tests.mutants $(ARGS)

nightly: $(STAMP) ## What takes longer: the tests with examples of this night, every fault on each shape of Redis, an hour of fuzz
	@HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest $(PARALLEL) tests/properties tests/kernel tests/workers/api tests/workers/dashboard $(ARGS)
	@HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest $(PARALLEL) -m "nightly or timed"
	@for shape in single sentinels cluster; do $(BIN)/python -m tests.chaos.run --shape $$shape || exit 1; done
	@$(BIN)/python -m tests.fuzz.run --minutes 60

spec: $(STAMP) ## Which rule of the specification is proved by which tests; checks the rulings
	@$(BIN)/python -m tests.spec

registry: $(STAMP) ## Write kernel/algebra/REFERENCE.md from the registry
	@$(BIN)/python -m tests.registry_doc > kernel/algebra/REFERENCE.md

dockets: $(STAMP) ## Write workers/dockets/REFERENCE.md from its rules
	@$(BIN)/python -m tests.dockets_doc > workers/dockets/REFERENCE.md

tamper: $(STAMP) ## Write kernel/verify/REFERENCE.md by making every change that it tells of; ARGS=--bytes turns over every byte
	@if [ -n "$(ARGS)" ]; then $(BIN)/python -m tests.tamper_bytes; else \
		$(BIN)/python -m tests.tamper_doc > kernel/verify/REFERENCE.md.new && \
		mv kernel/verify/REFERENCE.md.new kernel/verify/REFERENCE.md; fi

errors: $(STAMP) ## Write workers/api/REFERENCE.md from the table of error codes
	@$(BIN)/python -m tests.errors_doc > workers/api/REFERENCE.md

openapi: $(STAMP) ## Write workers/api/openapi.json from the routes
	@$(BIN)/python -m tests.openapi_doc > workers/api/openapi.json

ledger: $(STAMP) ## After a change of the rules, while nothing was released: tests/ledgers/ anew
	@$(BIN)/python -m tests.ledgers.make

baseline: $(STAMP) ## After a change of the ledger's schema, while nothing was released
	@$(BIN)/python -m tests.revisions baseline
	@$(BIN)/python -m tests.ledgers.make

revision: $(STAMP) ## After a change of the ledger's schema, once it was released: NAME="what changed"
	@test -n "$(NAME)" || { echo 'make revision NAME="what changed"'; exit 2; }
	@$(BIN)/python -m tests.revisions revision "$(NAME)"

reference: $(STAMP) ## Write the references of commands, HTTP and client into deploy/guides/
	@$(BIN)/python -m tests.reference_docs

proto: $(STAMP) ## Write workers/tee/tee_pb2* from tee.proto
	@mkdir -p $(VENV)/proto && $(BIN)/python -m grpc_tools.protoc -Irotulus=. \
		--python_out=$(VENV)/proto --pyi_out=$(VENV)/proto rotulus/workers/tee/tee.proto
	@mv $(VENV)/proto/rotulus/workers/tee/* workers/tee

blocking: $(STAMP) ## Write workers/client/blocking.py from the client for event loops
	@$(BIN)/python -m tests.blocking_client > workers/client/blocking.py.new && \
		mv workers/client/blocking.py.new workers/client/blocking.py

# In an environment of its own, because it brings a pip. What cannot be asked about is an error, so that
# silence means that nothing is known and not that nobody was asked; ARGS="--service osv" asks another.
audit: $(AUDIT) ## Ask PyPI for known vulnerabilities of what is locked: ARGS=--dry-run reads the lists alone
	@for list in deploy/container/requirements.txt deploy/requirements.txt; do \
		$(AUDIT) --strict --require-hashes --no-deps --disable-pip --progress-spinner off -r $$list $(ARGS) || exit 1; \
	done

$(AUDIT):
	@$(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/python -m pip install --quiet 'pip-audit>=2.10,<3'

# At night, because the image is built and started.
deploy-check: $(STAMP) ## Hold the files of deploy/ against the product; as root, build the image and run the demo in it
	@HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -rs tests/deploy tests/test_deploy.py tests/test_guides.py \
		tests/system/test_poolers.py tests/system/test_redis_refuses.py $(ARGS)

release: $(STAMP) ## Write both wheels, their bills of materials, the manual page and SHA256SUMS into dist/
	@$(BIN)/python deploy/package/release.py $(ARGS)

lock: ## Renew uv.lock and the list that pip reads (needs uv)
	uv lock
	uv export --quiet --frozen --all-groups --no-emit-project --no-emit-package rotulus-client --format requirements-txt -o deploy/requirements.txt
	uv export --quiet --frozen --no-dev --extra s3 --no-emit-project --no-emit-package rotulus-client --format requirements-txt -o deploy/container/requirements.txt

clean: ## Remove what the targets made, the environment included
	rm -rf $(VENV) .venv-3.* .venv-audit .mypy_cache .ruff_cache .hypothesis .import_linter_cache
