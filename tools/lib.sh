# The functions that the tools share. Source it; it sets $root, the root of the checkout.

# The types of envs that need the programs with physics, as a regular expression.
physics_envs='LunarLander|BipedalWalker|(Ant|HalfCheetah|Hopper|InvertedDoublePendulum|InvertedPendulum|Pusher|Reacher|Swimmer|Walker2d)-|MJCF'

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

# Prints the messages, a line each, and leaves with status 1.
die() {
  printf '%s\n' "$@" >&2
  exit 1
}

# The comment at the top of the calling script is its help.
usage() {
  sed -n '2,/^[^#]/{/^#/!q; s/^# \{0,1\}//p}' "$0"
}

# run_of_file FILE: prints the folder of the run or checkpoint that the file may be in.
run_of_file() {
  local folder
  folder=$(dirname "$1")
  [ -e "$folder/total_config.textproto" ] || [ -e "$folder/manifest.json" ] || [ ! -e "$folder/../total_config.textproto" ] ||
    folder=$(dirname "$folder")
  echo "$folder"
}

# What Git calls all files but pages and their pictures, which no program is built from.
not_pages=(':(top,exclude)*.md' ':(top,exclude)docs/pictures')

# Flags for every build and test besides those of .bazelrc. All checkouts of a user share one disk cache.
bazel_flags=()
[ -z "${XDG_CACHE_HOME:-}" ] || bazel_flags+=("--disk_cache=$XDG_CACHE_HOME/ding_worker/bazel")

# Runs `bazel COMMAND ARGUMENTS` and returns its status. Everything goes to stderr: on a terminal Bazel's own display, else
# errors, results, and now and then how far it is.
run_bazel() {
  local command=$1
  shift
  if [ -t 2 ]; then
    bazel "$command" "${bazel_flags[@]}" --show_result=0 --ui_event_filters=-info "$@" >&2
  else
    bazel "$command" "${bazel_flags[@]}" --show_result=0 --show_progress_rate_limit=20 "$@" 2>&1 |
      sed -u -E '/^(Loading|Analyzing|INFO): ?/d; /^\[[01] \/ /d; /^(Starting local Bazel|\.\.\. still)/d' >&2
  fi
}

# Runs a command and returns its status. The signals that end a run are passed on to it: it may have something to save.
run_with_signals() {
  local child status name
  "$@" <&0 &
  child=$!
  for name in INT TERM HUP USR1; do
    trap "kill -$name $child 2>/dev/null || true" "$name"  # One that is ignored (nohup) stays so.
  done
  while :; do
    status=0
    wait "$child" || status=$?
    kill -0 "$child" 2>/dev/null || break
  done
  trap - INT TERM HUP USR1
  return "$status"
}

# The files of the checkout, from its root, without what Git ignores (with no Git at hand: without build output).
source_files() {
  if git -C "$root" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git -C "$root" ls-files --cached --others --exclude-standard | while IFS= read -r file; do
      [ ! -f "$root/$file" ] || printf '%s\n' "$file"
    done
  else
    (cd "$root" && find . -name .git -prune -o -name 'bazel-*' -prune -o -type f -printf '%P\n')
  fi | LC_ALL=C sort
}

# Whether nothing but pages has changed since $DING_CI_BASE, a commit that has passed. False without it.
pages_alone() { [ -n "${DING_CI_BASE:-}" ] && git -C "$root" diff --quiet "$DING_CI_BASE" HEAD -- "${not_pages[@]}" 2>/dev/null; }

# Prints the labels of files that HEAD and the working tree have changed, for a set() of bazel query.
newest_labels() {
  {
    git -C "$root" diff --name-only --diff-filter=AMR HEAD~1 2>/dev/null || true
    git -C "$root" ls-files --others --exclude-standard 2>/dev/null || true
  } | labels_of_files
}

# Prints the labels of files that the commits of the day before HEAD have changed. A file that was only moved does not count.
changed_labels() {
  local day
  day=$(date --date="$(git -C "$root" show --no-patch --format=%cI HEAD) 1 day ago" --iso-8601=seconds 2>/dev/null) || return 0
  git -C "$root" log --since="$day" --find-renames --diff-filter=AMR --name-status --format= | grep -v '^R100' | awk '{ print $NF }' |
    labels_of_files
}

# Prints the labels of the files that the standard input names; for a BUILD file it prints the rules of its package.
labels_of_files() {
  local file folder
  sort -u | while IFS= read -r file; do
    folder=$(dirname "$file")
    while [ "$folder" != . ] && [ ! -f "$root/$folder/BUILD" ]; do folder=$(dirname "$folder"); done
    [ -f "$root/$file" ] && [ "$folder" != . ] && [[ $file != examples/* ]] || continue
    if [ "$file" = "$folder/BUILD" ]; then echo "//$folder:all"; else echo "//$folder:${file#"$folder/"}"; fi
  done
}

# The lines of the standard input, beginning with another one for each commit.
rotated_by_commit() {
  awk -v seed="$(fuzz_seed)" '{ line[NR] = $0 } END { for (i = 0; i < NR; i++) print line[1 + (i + seed) % NR] }'
}

# Prints a tenth of the lines of the standard input. Which one follows from the commit. Neighbours in a list of tests share
# most of what has to be built for them.
tenth_of_commit() {
  awk -v part=$(($(fuzz_seed) % 10)) '{ line[NR] = $0 }
    END { for (i = int(NR * part / 10) + 1; i <= int(NR * (part + 1) / 10); i++) print line[i] }'
}

# Where the seeds of the fuzz tests begin, and which tenth of the tests runs under the sanitizers: $DING_FUZZ_SEED, else the
# first seven hexadecimal digits, as a number, of the last commit that changed more than pages; 0 without Git.
fuzz_seed() {
  local commit
  if [ -n "${DING_FUZZ_SEED:-}" ]; then
    echo "$DING_FUZZ_SEED"
  elif commit=$(git -C "$root" log -1 --format=%H -- "$root" "${not_pages[@]}" 2>/dev/null) && [ -n "$commit" ]; then
    echo $((16#${commit:0:7}))
  else
    echo 0
  fi
}
