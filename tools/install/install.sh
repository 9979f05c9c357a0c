#!/usr/bin/env bash
# Starts install.py with what Bazel has built.
set -euo pipefail
command -v python3 >/dev/null || { echo "install: python3 is missing. Install it: apt-get install python3" >&2; exit 1; }
exec python3 tools/install/install.py --manifest=tools/install/installed_modules.txt --module_file=MODULE.bazel "$@"
