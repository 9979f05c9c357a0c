#!/usr/bin/env bash
# Writes test files, one after the other, as one source: ding_cc_tests in cc.bzl says what for.
#
#   tools/build_defs/test_unit.sh FILE_test.cc...
#
# The namespace without a name of each file gets a parent with the name of the file. Lines keep their numbers.
set -euo pipefail

for file in "$@"; do
  name=${file##*/}
  name=${name%.cc}
  grep -q '^namespace {$' "$file" && grep -q '^}  // namespace$' "$file" || {
    echo "$file: expected the lines 'namespace {' and '}  // namespace' around its tests and helpers (see ding_cc_tests in cc.bzl)" >&2
    exit 1
  }
  echo "#line 1 \"$file\""
  sed "s|^namespace {\$|namespace $name { namespace {|; s|^}  // namespace\$|} }  // namespace|" "$file"
done
