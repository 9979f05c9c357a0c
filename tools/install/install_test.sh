#!/usr/bin/env bash
# Tests what //:install installs and packs: that a compiler without Bazel can use it, and that it refuses what does not fit.
#   install_test.sh INSTALL_PY FLAG...      as install.sh gets them
set -euo pipefail
here=$PWD/$(dirname "$1")
install() { PYTHONDONTWRITEBYTECODE=1 python3 "${command[@]}" "$@"; }
command=("$@")
prefix=$TEST_TMPDIR/prefix
packages=$TEST_TMPDIR/packages

fail() {
  printf 'FAILED: %s\n' "$@" >&2
  exit 1
}

for tool in cmake dpkg-deb g++ ld.gold ld.lld pkg-config python3; do
  command -v $tool >/dev/null || fail "$tool is missing; run tools/setup build test"
done
install --prefix="$prefix"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

# Every header of ours that an installed header includes is installed.
(cd "$prefix/include" && grep -rhoE '^#include "ding_worker/[^"]+"' . | sort -u | cut -d'"' -f2 |
  while IFS= read -r header; do [ -f "$header" ] || fail "$header is included and not installed"; done)
"$here/link_modules.sh" "$prefix"

# A program that links two modules, one of which needs the other.
cat >"$TEST_TMPDIR/use.cc" <<'EOF'
#include "absl/status/status.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/selection/selector.h"

int main() {
  ding::NaiveReplayBuffer::Options options;
  options.capacity_rows = 0;
  const absl::Status status = ding::NaiveReplayBuffer::Create(options).status();
  return status.code() == absl::StatusCode::kInvalidArgument ? 0 : 1;
}
EOF
# compile FLAG...: builds the program with the flags before those of the modules.
compile() {
  # shellcheck disable=SC2046  # words
  g++ -Wall -Wextra "$@" "$TEST_TMPDIR/use.cc" -o "$TEST_TMPDIR/use" \
    $(pkg-config --cflags --libs ding_worker_replay_buffers ding_worker_buffer_selection)
}
compile -std=c++17 -Werror
"$TEST_TMPDIR/use" || fail "the program ends with status $?"

# Several modules in one program, by each linker: libraries with registrations, which they share, are linked once and whole. The folder
# has a space and brackets, and lib is a link, as on a system whose /lib is usr/lib.
strange="$TEST_TMPDIR/a [new] prefix"
mkdir -p "$strange/usr"
cp -r "$prefix/." "$strange/usr"
ln -s usr/lib "$strange/lib"
cat >"$TEST_TMPDIR/several.cc" <<'EOF'
#include <cstdio>

#include "ding_worker/env/env_registry.h"

int main() {
  const auto names = ding::EnvRegistry().Names();
  for (const auto& name : names) std::puts(name.c_str());
  return names.empty() ? 1 : 0;
}
EOF
modules="ding_worker_classic_control ding_worker_board_games ding_worker_gymnasium ding_worker_goals"
for linker in bfd gold lld; do
  # shellcheck disable=SC2086  # words
  flags=$(PKG_CONFIG_PATH="$strange/lib/pkgconfig" pkg-config --cflags --libs $modules)
  eval "g++ -std=c++17 -fuse-ld=$linker '$TEST_TMPDIR/several.cc' -o '$TEST_TMPDIR/several_$linker' $flags" || fail "$linker does not link several modules"
  "$TEST_TMPDIR/several_$linker" >"$TEST_TMPDIR/names" || fail "the program that $linker links has no envs"
  for name in CartPole-v1 TicTacToe gymnasium ReachGoal-v0; do
    grep -qx "$name" "$TEST_TMPDIR/names" || fail "the program that $linker links has no env $name"
  done
done
# The same by CMake, which finds the configuration below the link.
mkdir "$TEST_TMPDIR/cmake"
cat >"$TEST_TMPDIR/cmake/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(several CXX)
find_package(ding_worker REQUIRED COMPONENTS classic_control board_games dqn ppo)
add_executable(several ../several.cc)
target_link_libraries(several ding_worker::classic_control ding_worker::board_games ding_worker::dqn ding_worker::ppo)
EOF
cmake -S "$TEST_TMPDIR/cmake" -B "$TEST_TMPDIR/cmake/build" -Dding_worker_DIR="$strange/lib/cmake/ding_worker" &&
  cmake --build "$TEST_TMPDIR/cmake/build" || fail "CMake does not link several modules"
grep -qx CartPole-v1 <<<"$("$TEST_TMPDIR/cmake/build/several")" || fail "the program that CMake links has no env CartPole-v1"

# expect_refusal TEXT COMMAND...: the command fails and says the text.
expect_refusal() {
  local text=$1 said
  shift
  if said=$("$@" 2>&1); then fail "'$*' is not refused"; fi
  [[ $said == *"$text"* ]] || fail "'$*' does not say '$text':" "$said"
}

expect_refusal "ding_worker needs C++17 or newer" compile -std=c++14
# Headers of another release of Abseil than the libraries were compiled with: each has a namespace of its own.
mkdir -p "$TEST_TMPDIR/other/absl/base"
sed 's/^\(#define ABSL_OPTION_INLINE_NAMESPACE_NAME\) .*/\1 other_release/; s/^\(#define ABSL_OPTION_USE_INLINE_NAMESPACE\) .*/\1 1/' \
  /usr/include/absl/base/options.h >"$TEST_TMPDIR/other/absl/base/options.h"
expect_refusal "absl::other_release::" compile -std=c++17 "-I$TEST_TMPDIR/other"
# Headers of another release of protobuf than its protoc.
generated=$prefix/include/ding_worker/coordinator/coordinator.pb.h
[ -f "$generated" ] || fail "there is no $generated"
mkdir -p "$TEST_TMPDIR/other/google/protobuf"
sed 's/^\(#define PROTOBUF\(_MIN_PROTOC\)*_VERSION\) .*/\1 99000000/' /usr/include/google/protobuf/port_def.inc \
  >"$TEST_TMPDIR/other/google/protobuf/port_def.inc"
expect_refusal "This file was generated by an older version of protoc" \
  g++ -std=c++17 -fsyntax-only "-I$TEST_TMPDIR/other" "-I$prefix/include" -x c++ "$generated"
# Headers of another version of ding_worker than the libraries, and libraries of two.
mkdir -p "$TEST_TMPDIR/next/ding_worker/base"
sed 's/version_[0-9_]*$/version_99_0_0/' "$prefix/include/ding_worker/base/version.h" >"$TEST_TMPDIR/next/ding_worker/base/version.h"
expect_refusal "undefined reference to \`ding_worker_version_99_0_0'" compile -std=c++17 "-I$TEST_TMPDIR/next"
cat >"$TEST_TMPDIR/next.cc" <<'EOF'
extern "C" {
extern const char ding_worker_has_two_versions_in_one_program[], ding_worker_version_99_0_0[];
const char ding_worker_has_two_versions_in_one_program[] = "99.0.0", ding_worker_version_99_0_0[] = "99.0.0";
}
EOF
expect_refusal "multiple definition of \`ding_worker_has_two_versions_in_one_program'" compile -std=c++17 "$TEST_TMPDIR/next.cc"
# What is to go warns, unless the program wants no warnings.
cat >"$TEST_TMPDIR/old.cc" <<'EOF'
#include "ding_worker/base/version.h"
DING_DEPRECATED("0.2", "write New") void Old();
void Call() { Old(); }
EOF
expect_refusal "since ding_worker 0.2: write New" \
  g++ -std=c++17 -Werror -c -o "$TEST_TMPDIR/old.o" "-I$prefix/include" "$TEST_TMPDIR/old.cc"
g++ -std=c++17 -Werror -DDING_WORKER_NO_DEPRECATION -c -o "$TEST_TMPDIR/old.o" "-I$prefix/include" \
  "$TEST_TMPDIR/old.cc"
expect_refusal "there is no module 'buffer_of_mine'" install --prefix="$TEST_TMPDIR/none" --modules=buffer_of_mine
[ ! -e "$TEST_TMPDIR/none" ] || fail "a refused installation writes something"

# One module brings what it needs and no more.
install --prefix="$TEST_TMPDIR/one" --modules=replay_buffers
[ ! -e "$TEST_TMPDIR/one/include/ding_worker/policy" ] || fail "replay_buffers brings headers of policy"
"$here/link_modules.sh" "$TEST_TMPDIR/one"

# The packages: equal bytes for equal input, and together the files of the installation.
install --debian="$packages" >/dev/null
install --debian="$packages.again" >/dev/null
diff -r "$packages" "$packages.again" || fail "the packages of equal input differ"
mkdir "$TEST_TMPDIR/system"
for package in "$packages"/*.deb; do
  dpkg-deb --extract "$package" "$TEST_TMPDIR/system"
  dpkg-deb --contents "$package" | awk '$1 ~ /^-/ { print $6 }'
done | sort >"$TEST_TMPDIR/files"
twice=$(uniq -d "$TEST_TMPDIR/files")
[ -z "$twice" ] || fail "files in two packages: $twice"
diff -r "$prefix/include" "$TEST_TMPDIR/system/usr/include" || fail "the headers of the packages are others than those of --prefix"
diff -r "$prefix/lib/ding_worker" "$TEST_TMPDIR"/system/usr/lib/*-linux-gnu/ding_worker ||
  fail "the libraries of the packages are others than those of --prefix"

# Each package depends, at any distance, on those that hold what its headers include and its modules link.
python3 - "$packages" <<'EOF'
import glob
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


owner, needs, files = {}, {}, {}
for path in glob.glob(sys.argv[1] + '/*.deb'):
    name = output('dpkg-deb', '--field', path, 'Package').strip()
    needs[name] = set(re.findall(r'libding-worker-[a-z-]+', output('dpkg-deb', '--field', path, 'Depends')))
    if 'libabsl-dev (<<' not in output('dpkg-deb', '--field', path, 'Depends'):
        sys.exit('FAILED: %s takes any release of Abseil' % name)
    files[name] = [line.split()[5][1:] for line in output('dpkg-deb', '--contents', path).splitlines() if line[0] == '-']
    owner.update((file, name) for file in files[name])


def reached(name, seen):
    if name not in seen:
        seen.add(name)
        for other in needs[name]:
            reached(other, seen)
    return seen


checked = 0
for name, paths in files.items():
    allowed = reached(name, set())
    for path in paths:
        if not path.endswith(('.h', '.pc')):
            continue
        with open(sys.argv[1] + '/../system' + path, encoding='utf-8') as file:
            text = file.read()
        folder = path.split('/pkgconfig/')[0]
        wanted = ['/usr/include/' + header for header in re.findall(r'^#include "(ding_worker/[^"]+)"', text, re.M)]
        wanted += [folder + '/ding_worker/' + library for library in re.findall(r'-l:(lib[^ ]+\.a)', text)]
        for file in wanted:
            checked += 1
            if owner.get(file) not in allowed:
                sys.exit('FAILED: %s of %s needs %s of %s, on which it does not depend' % (path, name, file, owner.get(file)))
print('%d packages, %d references' % (len(files), checked))
EOF

# What pkg-config says of installed packages is right below another root, too.
PKG_CONFIG_PATH=$(echo "$TEST_TMPDIR"/system/usr/lib/*-linux-gnu/pkgconfig)
compile -std=c++17
"$TEST_TMPDIR/use" || fail "the program of the packages ends with status $?"
echo "all passed"
