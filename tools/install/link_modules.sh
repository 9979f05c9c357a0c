#!/bin/sh
# Links a program with each installed module by itself, all of its libraries whole: nothing that a module needs may be missing.
#   link_modules.sh [PREFIX]      PREFIX: where ding_worker is installed, if it is not where pkg-config looks
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[ $# -eq 0 ] || export PKG_CONFIG_PATH="$1/lib/pkgconfig"
echo 'int main() { return 0; }' >"$folder/main.cc"
g++ -c "$folder/main.cc" -o "$folder/main.o"
modules=$(pkg-config --list-package-names | grep '^ding_worker_') || { echo "no module of ding_worker is installed" >&2; exit 1; }
for module in $modules; do
  libraries=
  others=
  for flag in $(pkg-config --libs "$module"); do
    case $flag in
      -L* | *.a) libraries="$libraries $flag" ;;
      *) others="$others $flag" ;;
    esac
  done
  # shellcheck disable=SC2086  # words
  g++ "$folder/main.o" -Wl,--whole-archive $libraries -Wl,--no-whole-archive $others -o "$folder/main" ||
    { echo "$module does not link by itself" >&2; exit 1; }
done
echo "$(echo "$modules" | wc -l) modules link"
