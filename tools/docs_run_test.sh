#!/usr/bin/env bash
# Runs the commands of all pages as they are written, but for those that a page says to run by hand, in a copy of the files that a
# checkout has. What Bazel would build is there already. The pages have lost their prose, and lines have other numbers.
set -euo pipefail
built=$PWD
repo=$TEST_TMPDIR/repo
mkdir -p "$repo/worker"
cp -rL tools "$repo"
tar --extract --file=docs/page_commands.tar --directory="$repo"
cp -rL worker/configs "$repo/worker"
ln -s "$built" "$repo/bazel-bin"
cd "$repo"
# Each shard runs every n-th page.
[ -z "${TEST_SHARD_STATUS_FILE:-}" ] || touch "$TEST_SHARD_STATUS_FILE"
mapfile -t pages < <(tools/docs_commands | sed -n 's/^\([^ :]*\):[0-9]*: run by the test$/\1/p' | uniq |
  awk -v shard="${TEST_SHARD_INDEX:-0}" -v total="${TEST_TOTAL_SHARDS:-1}" 'NR % total == shard')
DING_BUILT=1 TMPDIR=$TEST_TMPDIR tools/docs_commands --run "${pages[@]}"
