#!/usr/bin/env bash
# Runs interrupt_test.py.
exec python3 worker/interrupt_test.py "$@"
