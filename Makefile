.DEFAULT_GOAL := help
PYTHON ?= python3
REQUESTS ?= 100000
KILLS ?= 100
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export HF_HUB_OFFLINE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Every process that a test starts would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test suite check unit test-postgresql docs translations clean bench-train bench-packs bench-gap bench-serve bench-evaluate bench-rotate bench-drip bench-crash bench-crowd bench-pages bench-rounds bench-novelty bench-loop bench-import bench-load bench-first-hour fuzz lock sbom audit

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(READY) ## make the virtual environment with everything in it

$(READY): setup.cfg pyproject.toml constraints.txt plugin/locks/runtime.txt plugin/locks/ray.txt plugin/locks/test.txt
	@$(PYTHON) -c 'import sys; sys.exit("Outfox needs Python 3.11 to 3.13: make PYTHON=python3.11 ...") if not (3, 11) <= sys.version_info < (3, 14) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the packages, Label Studio and PyTorch among them (2 to 5 minutes, about 3 GB; pip is silent for minutes while it unpacks them)"
	$(BIN)/python -m pip install --progress-bar on --require-hashes --no-deps -r plugin/locks/runtime.txt -r plugin/locks/ray.txt -r plugin/locks/test.txt
# What is left is PyTorch, whose build depends on the machine.
	$(BIN)/python -m pip install --progress-bar on -c constraints.txt -e '.[label-studio,postgres,ray,test]'
	@touch $(READY)

# Ctrl-C reaches make and the shell too: it is how the demo ends, and no error of theirs.
demo: setup ## Label Studio, a marketplace, the model and the manager, running: make demo ARGS="--port 8081"
	@trap : INT; $(BIN)/outfox --home .outfox/demo demo $(ARGS) || test $$? -eq 130

test: setup ## everything that continuous integration runs
	@$(MAKE) --no-print-directory -j 2 check suite

# Four processes for two cores: real servers and browsers are waited for.
suite: setup
	$(BIN)/python -m pytest -n 4 --dist loadgroup

check: setup ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup ## the fast tests only
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/unit

test-postgresql: setup ## every integration test on PostgreSQL alone; `make test` has those on it that a database can change
	OUTFOX_TEST_DATABASE=postgresql $(BIN)/python -m pytest -n 2 --dist loadgroup tests/integration

docs: setup ## write the generated pages of docs/ again
	$(BIN)/python -m plugin.reference docs

translations: setup ## collect the texts of worker pages into common/locales/*.po; then translate the new ones there
	@mkdir -p build
	$(BIN)/pybabel -q extract -F babel.cfg --no-wrap --add-location=file --sort-by-file --omit-header -o build/outfox.pot .
	@for file in common/locales/*.po; do \
	  $(BIN)/pybabel -q update --no-wrap --ignore-obsolete --ignore-pot-creation-date -i build/outfox.pot -l $$(basename $$file .po) -o $$file || exit 1; \
	done

fuzz: setup ## generated requests to all three servers, resumed where the last run stopped: make fuzz REQUESTS=1000000
	$(BIN)/python -m tests.fuzz.run --requests $(REQUESTS)

lock: ## write the locks in plugin/locks again, with uv: make lock UPGRADE=--upgrade
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv
	PATH="$(CURDIR)/build/lock/bin:$$PATH" build/lock/bin/python deploy/lock.py $(UPGRADE)

sbom: setup ## write the software bill of materials (CycloneDX) to build/sbom.json
	PYTHONPATH=. $(BIN)/python deploy/sbom.py build/sbom.json

audit: ## compare the locked packages with known vulnerabilities; fails if the advisory service does not answer
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --require-hashes --no-deps -r deploy/audit.txt
	build/audit/bin/python deploy/audit.py

bench-train: setup ## our training loop against a bare PyTorch loop
	$(BIN)/python tests/bench/train.py

bench-packs: setup ## every pack's base model from its own seed data
	$(BIN)/python tests/bench/packs.py

bench-gap: setup ## the adversarial gap on DynaSent's two rounds
	$(BIN)/python tests/bench/dynasent.py

bench-serve: setup ## our backend, the official SDK's request path, plain torch, the bare forward pass
	$(BIN)/python tests/bench/serve.py

bench-evaluate: setup ## ten models on five rounds against bare forward passes, a second run from the cache, memory
	$(BIN)/python tests/bench/evaluate.py

bench-rotate: setup ## 100 rotations under load: failed, mismatched and stale answers
	$(BIN)/python tests/bench/rotate.py

bench-drip: setup ## 500 slow connections on each server: the latency of other requests with and without them
	$(BIN)/python tests/bench/drip.py

bench-crash: setup ## HITs, approvals, bonuses and top-ups of two managers that are killed: make bench-crash KILLS=1000
	$(BIN)/python tests/bench/crash.py --kills $(KILLS)

bench-crowd: setup ## 10,000 HITs: calls against what is needed, and our own share of the time
	$(BIN)/python tests/bench/crowd.py

bench-pages: setup ## a worker's first and next HIT: bytes, seconds until usable, verdicts
	$(BIN)/python tests/bench/pages.py

bench-rounds: setup ## 1,000,000 examples frozen, loaded with pandas and shown by status
	$(BIN)/python tests/bench/rounds.py

bench-novelty: setup ## whether a text is new, among 10,000 and 1,000,000 known ones
	$(BIN)/python tests/bench/novelty.py

bench-loop: setup ## two rounds of the demo with processes killed at random moments, against two without
	$(BIN)/python tests/bench/loop.py

bench-import: setup ## 1,000,000 published rows imported into a database: rows/s and memory
	$(BIN)/python tests/bench/imports.py

bench-load: setup ## 20 to 1,000 workers on real pages, on SQLite and PostgreSQL: requests/s, latency, losses
	$(BIN)/python tests/bench/load.py

bench-first-hour: setup ## a newcomer in the demo: seconds to the first verdict, validated example, bonus and second round
	$(BIN)/python tests/bench/first_hour.py

clean: ## remove what the other targets made, the virtual environment too
	rm -rf $(VENV) .outfox test-results build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
