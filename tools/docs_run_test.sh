#!/usr/bin/env bash
# Runs the commands of all pages as they are written, but for those that a page says to run by hand, in a copy of the files that a
# checkout has. What Bazel would build is there already.
set -euo pipefail
built=$PWD
repo=$TEST_TMPDIR/repo
mkdir -p "$repo/worker"
cp -rL README.md docs tools "$repo"
cp -rL worker/configs "$repo/worker"
ln -s "$built" "$repo/bazel-bin"
cd "$repo"
DING_BUILT=1 TMPDIR=$TEST_TMPDIR tools/docs_commands --run
