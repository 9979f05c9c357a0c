#!/usr/bin/env bash
# Checks the tables of DI-engine's names: the names that they say are ours stand in the code of the files that they say, and
# every name of docs/names.txt, and no other, is in one of them.
#
#   mapping_test.sh [FOLDER]      checks that folder instead of this checkout
set -euo pipefail
root=${1:-$(cd "$(dirname "$(readlink -f docs/reference/mapping.md)")/../.." && pwd)}
cd "$root"
tables=(docs/reference/mapping.md docs/reference/di_engine_workers.md)
table=${tables[0]}
failures=0
complain() {
  echo "$table:$1: ${*:2}" >&2
  failures=$((failures + 1))
}

# Sets `names` to what is in backquotes.
find_names() {
  local text=$1
  names=()
  while [[ $text =~ \`([^\`]+)\`(.*) ]]; do
    names+=("${BASH_REMATCH[1]}")
    text=${BASH_REMATCH[2]}
  done
}

# Whether the code of one of the files, comments left out, has the word.
declare -A code
has_word() {
  local word=$1 path
  shift
  for path in "$@"; do
    [ -n "${code[$path]-}" ] || code[$path]=$(sed 's|//.*||' "$path")
    [[ ${code[$path]} =~ (^|[^A-Za-z0-9_])$word($|[^A-Za-z0-9_]) ]] && return 0
  done
  return 1
}

listed=()
for table in "${tables[@]}"; do
  number=0
  while IFS= read -r line; do
    number=$((number + 1))
    [[ $line == '|'* && $line != '| DI-engine |'* && $line != '|---'* ]] || continue
    IFS='|' read -r _ theirs ours files rest <<<"$line"
    [ -z "$rest" ] || complain $number 'a row has three columns'

    # `Class.method`, `.other`: the second one is of the same class.
    class=
    find_names "$theirs"
    for name in "${names[@]}"; do
      case $name in
        .*) name=$class$name ;;
        [A-Z]*.*) class=${name%%.*} ;;
      esac
      listed+=("$name")
    done

    find_names "$files"
    paths=("${names[@]}")
    find_names "$ours"
    if [ ${#paths[@]} -eq 0 ]; then
      [[ $ours =~ ^\ (not yet|no successor):\ [^\ ] ]] ||
        complain $number "no file, and neither 'not yet: why' nor 'no successor: why'"
      continue
    fi
    for path in "${paths[@]}"; do
      [ -f "$path" ] || { complain $number "there is no file '$path'"; continue 2; }
    done
    [ ${#names[@]} -gt 0 ] || complain $number 'a file, and no name in it'
    for name in "${names[@]}"; do
      [[ $name != *'()' ]] || continue # a call that explains
      for part in ${name//::/ }; do
        has_word "${part#--}" "${paths[@]}" || complain $number "'$part' is not in ${paths[*]}"
      done
    done
  done <"$table"
done

LC_ALL=C sort -u -c docs/names.txt || complain 1 'docs/names.txt is not sorted, or has a name twice'
difference=$(printf '%s\n' "${listed[@]}" | LC_ALL=C sort -u | LC_ALL=C comm -3 - docs/names.txt)
while IFS= read -r name; do
  case $name in
    '') ;;
    $'\t'*) complain 1 "'${name#?}' of docs/names.txt is missing" ;;
    *) complain 1 "'$name' is not in docs/names.txt" ;;
  esac
done <<<"$difference"
[ $failures -eq 0 ] || { echo "$failures complaints" >&2; exit 1; }
echo "${#listed[@]} names in the table, $(wc -l <docs/names.txt) in docs/names.txt"
