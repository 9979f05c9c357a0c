# Roots of their own with a Debian in them, for tools that try things there. Source it after lib.sh, then call open_root.

# Prints $DEBIAN_MIRROR, else the mirror of apt, else Debian's.
debian_mirror() {
  local mirror
  mirror=${DEBIAN_MIRROR:-$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" { print $2; exit }' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true)}
  echo "${mirror:-http://deb.debian.org/debian}"
}

# Installs debootstrap if it is missing.
need_debootstrap() {
  [ "$(id -u)" -eq 0 ] || die "tools/${0##*/}: only root can make a root of its own; run it with sudo"
  command -v debootstrap >/dev/null || apt-get install --yes --no-install-recommends -q debootstrap >&2 ||
    die "tools/${0##*/}: debootstrap is missing. Install it: apt-get install debootstrap"
}

# Sets $passed and $failed to 0 and $place to a root with a Debian and packages, which is made if it is not there.
#   open_root SUITE "PACKAGE..." [--keep] [FOLDER]
# FOLDER is the place of the root; one that is there is used again. Without it the root is new, and removed at the end unless --keep.
# If $preferred is set, "SUITE2: PACKAGE...", apt takes these packages from SUITE2 of the same mirror, and everything else from SUITE.
open_root() {
  local suite=$1 packages=$2 keep=false argument mirror tool=${0##*/}
  shift 2
  passed=0
  failed=0
  place=
  for argument in "$@"; do
    case $argument in
      --keep) keep=true ;;
      -*) die "tools/$tool: unknown flag '$argument'; see tools/$tool --help" ;;
      *) place=$argument ;;
    esac
  done
  need_debootstrap
  mirror=$(debian_mirror)
  if [ -z "$place" ]; then
    place=$(mktemp -d "${TMPDIR:-/tmp}/ding_worker_$tool.XXXXXX")
    $keep || trap 'rm -rf --one-file-system "$place"' EXIT
  fi
  mkdir -p "$place"
  place=$(cd "$place" && pwd)
  [ ! -e "$place/.ready" ] || return 0
  echo "== Debian $suite: $place" >&2
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$place" "$mirror" >&2
  cp /etc/resolv.conf "$place/etc/resolv.conf"
  # How this machine reaches the mirror.
  cp --update /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/*mirror* "$place/etc/apt/apt.conf.d/" 2>/dev/null || true
  cp --archive /etc/ssl/certs/. "$place/etc/ssl/certs/"
  # The mirror may be a snapshot, whose release files have expired.
  echo 'Acquire::Check-Valid-Until "false";' >"$place/etc/apt/apt.conf.d/99snapshot"
  if [ -n "${preferred:-}" ]; then
    echo "deb $mirror ${preferred%%:*} main" >"$place/etc/apt/sources.list.d/preferred.list"
    printf 'Package:%s\nPin: release a=%s\nPin-Priority: 900\n' "${preferred#*:}" "${preferred%%:*}" \
      >"$place/etc/apt/preferences.d/preferred"
  fi
  in_root network "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -q $packages" >&2
  touch "$place/.ready"
}

# Runs a command in the root with the checkout at /project. "network" or "offline" says whether it has a network.
in_root() {
  local network=$1
  shift
  local flags=(--mount --propagation private)
  [ "$network" = network ] || flags+=(--net)
  # The mounts and the network of the command end with it.
  unshare "${flags[@]}" sh -c '
    place=$1; checkout=$2; shift 2
    mkdir -p "$place/project"
    mount -t proc proc "$place/proc" && mount --bind /dev "$place/dev" && mount --bind "$checkout" "$place/project" || exit 1
    ip link set lo up 2>/dev/null || true
    exec env -i HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$place" sh -c "cd /project && $*"
  ' sh "$place" "$root" "$@"
}

# check NAME NETWORK COMMAND: runs the command in the root, without a network unless NETWORK is "network", and counts it.
check() {
  echo "== $1" >&2
  if in_root "$2" "$3" >&2; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $1" >&2
  fi
}

# The last line of the tool, and its status.
end_checks() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
