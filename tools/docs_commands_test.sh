#!/usr/bin/env bash
# Tests tools/docs_commands in a checkout of its own, with pages of its own: what it lists, complains about, and runs.
set -euo pipefail
repo=$TEST_TMPDIR/repo
mkdir -p "$repo/tools" "$repo/docs" "$repo/worker/configs" "$repo/worker/processes" "$repo/examples/own" "$repo/bazel-bin/worker"
cp "$(readlink -f tools/docs_commands)" "$repo/tools"
cd "$repo"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

printf '#!/usr/bin/env bash\n# Trains.\n#   --parallel   in several processes\necho "train: $*"\n' >tools/train
printf '#!/usr/bin/env bash\necho "serial: $*"\n' >bazel-bin/worker/serial
chmod +x tools/train bazel-bin/worker/serial
printf 'DEFINE_string(config, "", "help");\nDEFINE_int64(seed, 0, "help");\n' >worker/ctl_main.cc
echo 'const char* kAlone[] = {"status"};' >worker/processes/ask_operator.cc
cp tools/train tools/new_env
echo 'ding_cc_binary(name = "serial")' >worker/BUILD
echo 'cc_binary(name = "train")' >examples/own/BUILD

# complains 'LINE...' <<PAGE: what --check says about a page that is read from stdin.
complains() {
  local expected=$1 status=0
  cat >docs/page.md
  tools/docs_commands --check docs/page.md >out 2>&1 || status=$?
  [ "$(cat out)" = "$expected" ] || fail "--check said:" "$(cat out)" "expected:" "$expected" "of:" "$(cat docs/page.md)"
  [ $status -eq $([ -z "$expected" ] && echo 0 || echo 1) ] || fail "--check: status $status, after: $expected"
}

complains '' <<'PAGE'
`tools/train CONFIG --parallel --seed=1` and `bazel-bin/worker` and `ctl status`
```sh
tools/train a.textproto --parallel --seed=1   # --not_a_flag
bazel build //worker:serial && bazel-bin/worker/serial --seed=$((1 + 2)) --config='a b'   # worker/... is another one
for seed in 0 1; do serial --noseed --seed $seed >out; done | cat
HOST=1 cd "$(mktemp -d)" \
    && cat x
```
<!-- by hand: needs another machine -->
```console
host$ serial --seed=3
--not_a_flag is output
```
```text
tools/train in a drawing
```
```
a block without a command
```
PAGE
sed -i '/seed/d' worker/ctl_main.cc
complains "docs/page.md:1: tools/train has no flag '--seed'
docs/page.md:3: serial has no flag '--seed'" <<'PAGE'
`tools/train --seed=1`
```sh
serial --seed=1 --config=x
```
PAGE
complains "docs/page.md:2: there is no tool 'tools/nothing'
docs/page.md:3: there is no target '//worker:nothing'
docs/page.md:4: there is no target '//worker:nothing'
docs/page.md:5: there is no target '//nothing'
docs/page.md:6: 'sudo' is no command that tools/docs_commands knows: correct it, or add it to SYSTEM there
docs/page.md:7: ctl has no action 'stauts'
docs/page.md:8: quotes that do not end: cat 'x
docs/page.md:10: there is no tool 'tools/nobody'" <<'PAGE'
```sh
tools/nothing --all
bazel test //worker:serial //worker:nothing //worker/...
bazel-bin/worker/nothing
bazel run -c opt //nothing
cat x | sudo rm x
ctl stauts
cat 'x
```
`tools/nobody`
PAGE
complains '' <<'PAGE'
```sh
tools/new_env MyMaze
bazel test //my_maze:my_maze_test
```
PAGE
complains 'docs/page.md:2: a command in a block that is not fenced by ```sh, ```console or ```text
docs/page.md:4: a mark without a block below it
docs/page.md:7: a mark above a block that is not fenced by ```sh or ```console' <<'PAGE'
```
tools/train x
```
<!-- by hand: a reason -->
Text.
<!-- by hand: a reason -->
```
text
```
PAGE
# The labels of an example's page are those of the example.
printf '```sh\nbazel run //:train\n```\n' >examples/own/README.md
tools/docs_commands --check examples/own/README.md || fail "the target of an example is not found"

# ran 'LINES' STATUS [PAGE]: what --run prints at its end, and its status.
ran() {
  local status=0
  DING_BUILT=1 tools/docs_commands --run "${3:-docs/page.md}" >out 2>&1 || status=$?
  [ "$status" -eq "$2" ] && grep -qF -- "$1" out || fail "--run: status $status, expected $2 and '$1':" "$(cat out)"
}
cat >docs/page.md <<PAGE
\`\`\`sh
echo 'one' >$repo/log
cd /
\`\`\`
<!-- by hand: never -->
\`\`\`sh
echo 'by hand' >>$repo/log
\`\`\`
<!-- first: greeting=hello -->
<!-- first: sleep 60 & -->
\`\`\`console
$ bazel build //worker:serial && bazel run //worker:serial -- --seed=1 >>$repo/log
serial: this is output
$ echo \$greeting >>$repo/log; [ -f docs/page.md ]
\`\`\`
PAGE
start=$SECONDS
ran '2 blocks ran, 0 pages failed' 0
[ $((SECONDS - start)) -lt 30 ] || fail "it waited for what a page leaves in the background"
[ "$(cat log)" = $'one\nserial: --seed=1\nhello' ] || fail "--run ran:" "$(cat log)"
ran '1 blocks ran, 0 pages failed' 0 docs/page.md:6
[ "$(tail -n 1 log)" = 'by hand' ] || fail "a block that is named is not run"
ran 'no block of commands begins at docs/page.md:2; there are: docs/page.md:1, docs/page.md:6, docs/page.md:11' 1 docs/page.md:2
tools/docs_commands docs/page.md >out
[ "$(grep '^docs' out)" = $'docs/page.md:1: run by the test\ndocs/page.md:6: by hand: never\ndocs/page.md:11: run by the test' ] ||
  fail "the list:" "$(cat out)"

printf '```sh\ncat nothing\necho on >log\n```\n' >docs/page.md
rm log
ran 'docs/page.md:1: status 1; the end of what it printed:' 1
grep -q 'nothing: No such file' out || fail "the error is not shown:" "$(cat out)"
[ ! -e log ] || fail "it went on after a command that failed"
printf '```sh\nfalse &\ntrue &\nsleep 0.2\nwait\n```\n' >docs/page.md
ran '0 blocks ran, 1 pages failed' 1
printf '```sh\nbazel build //worker:serial //worker:ctl\n```\n' >docs/page.md
ran '//worker:ctl is not built; a test needs it in its data' 1
tools/docs_commands --help >out
grep -q 'tools/docs_commands --check' out || fail "--help does not help"
