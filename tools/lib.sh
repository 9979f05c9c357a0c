# What the tools share. Source it; it sets $root, the root of the checkout.

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

# Prints the message (a line per argument) and leaves with status 1.
die() {
  printf '%s\n' "$@" >&2
  exit 1
}

# Flags for every bazel build or test: the rest is in .bazelrc. One disk cache for all checkouts of a user.
bazel_flags=()
[ -z "${XDG_CACHE_HOME:-}" ] || bazel_flags+=("--disk_cache=$XDG_CACHE_HOME/ding_worker/bazel")

# Only results and errors when Bazel's output goes to no terminal; on a terminal also its progress.
quiet_flags=(--show_result=0 --noshow_loading_progress --ui_event_filters=-info,-debug)
[ -t 2 ] || quiet_flags+=(--show_progress_rate_limit=15)
