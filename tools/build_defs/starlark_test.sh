#!/bin/sh
# Starts the tests of starlark_test.py.
exec python3 -B tools/build_defs/starlark_test.py
