# Every target sets up .venv from the lock file on first use and works without network afterwards.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.locked
BUILD := $(if $(PLINTH_BUILD),$(PLINTH_BUILD),build)
# pytest-xdist workers, mutants at once
JOBS ?= 2
ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif

# Left out, these are the command's defaults (sw/plinth/defaults.py).
DIES ?=
EPOCHS ?=
SEED ?=
FORMAT ?=
NETWORK ?=
MACHINE ?=
PLANNER ?=
ARGS ?=
PRESET ?= ndp-demo
BOARD ?= ulx3s-85f
ONLY ?=
COUNT ?=
ROOM ?=
N ?= 5000000

# Modules are compiled once, not by each of the many processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help train test test-quick test-long test-arith mutate prove coverage lint verilog registers bench fresh agreement accuracy bitstream fpga-arith fpga-area fpga-timing doctor clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.lock pyproject.toml
	@echo "setting up $(VENV) from requirements.lock"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 2; }
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-cache-dir --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	@touch $@

train: $(STAMP) ## train on the digits (DIES= NETWORK= MACHINE=ndp|hypar|fpga FORMAT=fp32|mixed|fixed WINOGRAD=auto|2|4 WEIGHTS= PREDICT=1|2|regions PLANNER= EPOCHS= SEED= ARGS=)
	@$(BIN)/plinth train $(NETWORK) $(if $(DIES),--dies $(DIES)) $(if $(FORMAT),--format $(FORMAT)) $(if $(PLANNER),--planner $(PLANNER)) $(if $(MACHINE),--machine $(MACHINE)) \
		$(if $(WINOGRAD),--winograd $(WINOGRAD)) $(if $(WEIGHTS),--weights $(WEIGHTS)) $(if $(PREDICT),--predict $(PREDICT)) \
		$(if $(EPOCHS),--epochs $(EPOCHS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

test: $(STAMP) ## the regression
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup -m "not long" --durations 30 --durations-min 5 $(ARGS)

test-quick: $(STAMP) ## its fast part
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup -m "not long and not slow" $(ARGS)

test-long: $(STAMP) ## long campaigns on top of the regression
	@$(BIN)/python -m pytest -q -m "long" $(ARGS)

test-arith: $(STAMP) ## N random cases for each arithmetic operation (N=5000000)
	@$(BIN)/python -m pytest -q tests/hw/arith --arith-cases $(N) $(ARGS)

mutate: $(STAMP) ## small random mutants of the code against its tests (SEED= COUNT=120 ROOM=golden|hardware|lower ARGS=--again)
	@$(BIN)/python -m tests.mutation $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
		$(if $(ROOM),--room $(ROOM)) --jobs $(JOBS) $(ARGS)

prove: $(STAMP) ## proofs of blocks, and that each finds its broken twins (ONLY=name)
	@$(BIN)/python -m tests.prove --jobs $(JOBS) $(if $(ONLY),--only $(ONLY)) $(ARGS)

coverage: $(STAMP) ## blocks and branches of the smallest dies' Verilog that tests of whole dies run (ARGS=--write)
	@$(BIN)/python -m tests.coverage $(ARGS)

lint: $(STAMP) ## ruff, mypy, and verilator --lint-only over the Verilog of each preset
	@$(BIN)/ruff check
	@$(BIN)/python -m mypy & $(BIN)/python -m plinth_sim.rtl.lint; linted=$$?; wait $$! && exit $$linted

verilog: $(STAMP) ## synthesizable Verilog of a die (PRESET=ndp-demo), into build/verilog/
	@$(BIN)/plinth verilog $(PRESET)

registers: $(STAMP) ## register map of a die (PRESET=ndp-demo) as SystemRDL, C headers and pages, into build/registers/
	@mkdir -p $(BUILD)/registers
	@$(BIN)/python -m plinth_hw.isa --rdl $(PRESET) $(BUILD)/registers/$(PRESET).rdl
	@$(BIN)/peakrdl c-header $(BUILD)/registers/$(PRESET).rdl -o $(BUILD)/registers/$(PRESET).h
	@$(BIN)/plinth header $(PRESET) --out $(BUILD)/registers/$(PRESET)-tasks.h
	@$(BIN)/peakrdl html $(BUILD)/registers/$(PRESET).rdl -o $(BUILD)/registers/$(PRESET)

bench: $(STAMP) ## utilisation and speed, into build/bench.json (ONLY=name)
	@$(BIN)/plinth bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

fresh: $(STAMP) ## time of `make train` and of `make test` in fresh clones, into build/bench.json (ARGS=train)
	@$(BIN)/python -m tests.fresh $(ARGS)

agreement: $(STAMP) ## simulated against co-simulated cycles of steps, into docs/agreement.md (ARGS="--only ring-4")
	@$(BIN)/plinth agreement $(ARGS)

bitstream: PRESET = fpga-ulx3s
bitstream: $(STAMP) ## plinth.bit with reports, into build/bitstream/ (BOARD=ulx3s-85f PRESET=fpga-ulx3s ARGS="--clock MHZ")
	@$(BIN)/python -m plinth_hw.board $(BOARD) $(PRESET) --out $(BUILD)/bitstream/$(BOARD)/$(PRESET) $(ARGS)

fpga-arith: $(STAMP) ## the table of docs/arith.md: LUT4, FF, DSP, Fmax on ECP5
	@$(BIN)/python -m plinth_hw.fpga arith

fpga-area: $(STAMP) ## LUT4, FF, DSP, DP16KD of each block of ndp-demo and fpga-demo, of ends of links, of codes and tiles, on ECP5
	@$(BIN)/python -m plinth_hw.fpga area

fpga-timing: $(STAMP) ## Fmax and slowest path of every block between registers on ECP5, into docs/timing.md (ONLY="router link")
	@$(BIN)/python -m plinth_hw.fpga timing $(ONLY)

accuracy: $(STAMP) ## the digits in every number format, ten seeds each, into docs/formats.md (ARGS="--only adagrad")
	@$(BIN)/plinth accuracy $(ARGS)

doctor: $(STAMP) ## which tools were found
	@$(BIN)/plinth doctor

clean: ## remove build/ and .venv/
	@rm -rf build $(VENV) *.egg-info
