#!/usr/bin/env bash
# Starts install.py, the first argument, with what Bazel has built.
set -euo pipefail
command -v python3 >/dev/null || { echo "install: python3 is missing. Install it: apt-get install python3" >&2; exit 1; }
exec python3 "$@"
