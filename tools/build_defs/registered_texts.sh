#!/usr/bin/env bash
# Prints the C++ source of ding_registered_texts (text.bzl): registered_texts.sh FUNCTION HEADER FILE...
set -euo pipefail

function=$1
header=$2
shift 2
printf '#include "%s"\n\n' "$header"
count=0
for file in "$@"; do
  printf '[[maybe_unused]] static const bool registered_%d = (%s(R"ding_text(' "$count" "$function"
  cat "$file"
  printf ')ding_text"),\n                                                   true);\n'
  count=$((count + 1))
done
