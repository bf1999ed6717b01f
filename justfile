# One door for every task. Each recipe is the script of the same name in scripts/, for machines without just.

# list the tasks
default:
    @just --list --unsorted

# make .venv with everything a developer needs, the peer for benchmarks included
setup:
    @scripts/setup

# run the tests; arguments go to pytest
test *ARGS:
    @scripts/test {{ARGS}}

# look for mistakes and untidiness
lint:
    @scripts/lint

# check the types, strictly
types:
    @scripts/types

# lay out the code and sort the imports
fmt:
    @scripts/fmt

# run every program in the documentation; arguments go to pytest
docs *ARGS:
    @scripts/docs {{ARGS}}

# measure beside the peer; arguments are workloads and options
bench *ARGS:
    @scripts/bench {{ARGS}}

# everything that must hold before a change is handed in
check: lint types test

# choose new exact versions for requirements.lock
lock:
    @scripts/lock
