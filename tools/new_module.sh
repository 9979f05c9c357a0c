# What tools/new_env and tools/new_policy share. Source it after lib.sh; it sets the variables that its functions name.

# take_name KIND EXAMPLE NAME: checks the name. Sets $name; $snake, the name in lower case, my_maze.
take_name() {
  name=$3
  [ -n "$name" ] || die "tools/${0##*/}: the name of the $1 is missing; see tools/${0##*/} --help"
  local article=a
  [[ $1 != [aeiou]* ]] || article=an
  [[ $name =~ ^[A-Z][A-Za-z0-9]*$ ]] ||
    die "tools/${0##*/}: '$name' is not a name for $article $1: expected a capital letter, then letters and digits, as $2"
  [[ ! $name =~ ^(Train|Evaluate|Parallel)$ ]] ||
    die "tools/${0##*/}: '$name' is the name of a program that is written beside the $1"
  snake=$(sed -E 's/([a-z0-9])([A-Z])/\1_\2/g' <<<"$name" | tr 'A-Z' 'a-z')
}

# take_folder FOLDER: what is written; empty: $snake. It must not exist. Sets $folder; $workspace, the root of the workspace that it is
# in (empty: none); $package, what stands before the part of a path or label that names a file of the folder; $path, where this
# repository is, seen from a workspace inside of it, else absolute; $cache, the disk cache of tools/train.
take_folder() {
  folder=$(realpath -m -- "${1:-$snake}")
  [ ! -e "$folder" ] || die "tools/${0##*/}: '$folder' exists, expected a folder that does not"
  workspace=$(dirname "$folder")
  until [ -e "$workspace/WORKSPACE" ] || [ -e "$workspace/WORKSPACE.bazel" ] || [ -e "$workspace/MODULE.bazel" ]; do
    if [ "$workspace" = / ]; then
      workspace=
      break
    fi
    workspace=$(dirname "$workspace")
  done
  package=
  [ -z "$workspace" ] || package=$(realpath -m --relative-to="$workspace" -- "$folder")/
  path=$root
  [[ $folder != "$root"/* ]] || path=$(realpath -m --relative-to="$folder" -- "$root")
  cache=${XDG_CACHE_HOME:-'~/.cache'}
}

# fill TEMPLATE KIND SED_ARGUMENT...: prints the template, whose path is in tools/, with the names filled in. A line with @ONLY_x@ is left
# out unless the kind is x.
fill() {
  local template=$1 kind=$2
  shift 2
  sed -E "/@ONLY_[a-z_0-9]+@/{/@ONLY_$kind@/!d}; s/ *@ONLY_$kind@//" "$root/tools/$template" |
    sed -e "s|@NAME@|$name|g; s|@SNAKE@|$snake|g; s|@ROOT@|$path|g; s|@CACHE@|$cache|g; s|@PACKAGE@|$package|g" "$@"
}

# join_workspace MODULE...: makes the folder a workspace if it is in none, else says what the workspace lacks: ding_worker, or one of
# these modules of Bazel's registry.
join_workspace() {
  if [ -z "$workspace" ]; then
    fill new_env_templates/WORKSPACE.in "" >"$folder/WORKSPACE"
    fill new_env_templates/bazelrc.in "" >"$folder/.bazelrc"
  elif [ "$workspace" = "$root" ] || grep -qs 'ding_worker_dependencies()' "$workspace/WORKSPACE" "$workspace/WORKSPACE.bazel"; then
    :
  elif [ -e "$workspace/MODULE.bazel" ]; then
    local needed line
    needed=$(grep -E "^bazel_dep\(name = \"($(tr ' ' '|' <<<"$*"))\"" "$root/MODULE.bazel" | sed 's/ dev_dependency = True,//')
    while read -r line; do
      # Up to the name and its quotation marks.
      grep -qF -- "${line%%,*}" "$workspace/MODULE.bazel" || echo "tools/${0##*/}: $workspace/MODULE.bazel needs: $line" >&2
    done <<<"$needed"
    grep -q '^bazel_dep(name = "ding_worker"' "$workspace/MODULE.bazel" ||
      echo "tools/${0##*/}: $workspace does not know @ding_worker yet; see $root/examples/bzlmod/MODULE.bazel" >&2
  else
    echo "tools/${0##*/}: $workspace does not know @ding_worker yet; see $root/examples/custom_env/WORKSPACE" >&2
  fi
}

# say_what_next CONFIG...: how to test, train and play what was written. The first config trains it, each other one by another algorithm.
say_what_next() {
  local label=//${package%/} config run=run
  echo "$folder is written. In ${workspace:-$folder}:"
  echo "  $root/tools/setup build test   # what the test needs, once"
  echo "  bazel test $label:${snake}_test"
  for config in "$@"; do
    [ "$config" = "$1" ] || run=run_${config%.textproto}
    echo "  bazel run $label:train -- --config=$folder/$config --exp_dir=$folder/$run"
    echo "  bazel run $label:evaluate -- --checkpoint=$folder/$run"
  done
  echo "In several processes:"
  echo "  $root/tools/setup grpc         # once"
  echo "  bazel run $label:parallel -- --config=$folder/$1 --exp_dir=$folder/run_parallel"
  [ "$workspace" != "$root" ] || return 0
  echo "The first build compiles ding_worker for workspaces that depend on it, unless tools/test has run; in a folder of $root it would not."
  echo "On two cores this takes a quarter of an hour."
}
