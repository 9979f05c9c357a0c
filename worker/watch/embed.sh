#!/usr/bin/env bash
# Prints page_files.cc: the files that the arguments name, for PageFile().
set -euo pipefail
echo '#include "ding_worker/worker/watch/page_files.h"'
echo 'namespace ding {'
echo 'namespace {'
number=0
for file; do
  echo "constexpr unsigned char kFile$number[] = {"
  od -An -v -tu1 "$file" | sed -E 's/([0-9]+)/\1,/g'
  echo '};'
  number=$((number + 1))
done
echo '}  // namespace'
echo 'absl::string_view PageFile(absl::string_view name) {'
number=0
for file; do
  echo "  if (name == \"$(basename "$file")\") return {reinterpret_cast<const char*>(kFile$number), sizeof(kFile$number)};"
  number=$((number + 1))
done
echo '  return {};'
echo '}'
echo '}  // namespace ding'
