#!/usr/bin/env bash
# Checks that the excerpts in pages are in the files that they name, and that a page that differs is found.
set -euo pipefail
check=$(readlink -f tools/check_excerpts.py)
cd "$(dirname "$(dirname "$check")")"
export PYTHONDONTWRITEBYTECODE=1
python3 "$check"
guides=$(ls docs/how_to/own_*.md | grep -v own_modules.md)
without=$(grep -LE '^From `examples/own_modules/[a-z_]+\.cc`:$' $guides) || true
[ -z "$without" ] || { echo "no excerpt of a file in examples/own_modules: $without" >&2; exit 1; }

cd "$TEST_TMPDIR"
printf 'first();\n  if (x) {\n    second();\n    third();\n  }\nfourth();\n' >code.cc
# refused 'COMPLAINT' 'LINES': what is said about a page with these lines; empty: nothing.
refused() {
  local said
  printf 'From `%s`, say:\n\n```cpp\n%s\n```\n' "${3:-code.cc}" "$2" >page.md
  said=$(python3 "$check" page.md || true)
  [ "$said" = "$1" ] || { printf '%s\n' "said: $said" "expected: $1" >&2; exit 1; }
}
refused '' $'first();\n  if (x) {'
refused '' $'if (x) {\n  second();\n...\n}\n// ...\nfourth();'
refused "page.md:3: not what code.cc has: 'fourth();', where the file has 'third();'" $'second();\nfourth();'
refused "page.md:3: not what code.cc has: 'fifth();', where the file has 'its end'" $'fourth();\nfifth();'
refused "page.md:3: not what code.cc has: there is no line 'first();', or it is further up" $'second();\n...\nfirst();'
refused "page.md:3: not what code.cc has: the indentation of 'if (x) {' and the lines below it differs" $'if (x) {\nsecond();'
refused "page.md:3: there is no file 'gone.cc'" 'first();' gone.cc
