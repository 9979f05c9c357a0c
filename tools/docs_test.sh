#!/usr/bin/env bash
# Makes the site of the pages of the checkout, and looks for what readers need; a small checkout shows what is refused.
set -euo pipefail
docs=$(readlink -f tools/docs)
sources=$(dirname "$docs")
cd "$TEST_TMPDIR"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

"$docs" --build site >out 2>&1 || fail "the site cannot be made:" "$(cat out)"
for page in index docs/tutorials/first_agent docs/reference/config docs/explanation/architecture CHANGELOG; do
  [ -s "site/$page.html" ] || fail "there is no page $page"
done
grep -q 'IBuffer' site/docs/api/replay_buffer.html || fail "the page of replay_buffer does not show IBuffer"
! grep -q 'private</span><span class="o">:' site/docs/api/*.html || fail "a page shows private members"
! grep -qE '(src|href)="https?://[^"]*\.(js|css|woff2?)"' site/index.html || fail "a page takes files from the network"
grep -q 'tictactoe_ppo' site/search/search_index.json || fail "the search does not find 'tictactoe_ppo'"
# Each of these stays as it is where Markdown was not understood.
! grep -lE '<p>(\|.*\||```|- .*<br|[0-9]\. .*<br)' $(find site -name '*.html') || fail "a page shows Markdown"

# refused 'TEXT' COMMAND...: after the command in a small checkout, the site is refused with the text.
refused() {
  local text=$1 status=0
  shift
  rm -rf small
  mkdir -p small/docs small/tools
  cp "$docs" "$sources"/{api_pages,check_api,site_hook}.py small/tools
  for page in README CONTRIBUTING SECURITY CHANGELOG docs/one; do printf '# A page\n\n## A place\n' >small/$page.md; done
  printf '# Pages\n\n## Tutorials\n- [One](one.md)\n' >small/docs/README.md
  touch small/docs/public_targets.txt
  (cd small && "$@")
  small/tools/docs --build small/site >out 2>&1 || status=$?
  if [ -z "$text" ]; then [ $status -eq 0 ] || fail "$*: status $status:" "$(cat out)"; return; fi
  [ $status -eq 1 ] || fail "$*: status $status, expected 1:" "$(cat out)"
  grep -qF -- "$text" out || fail "$*: expected '$text', got:" "$(cat out)"
}
refused '' true
refused 'docs/README.md does not name docs/two.md' touch docs/two.md
refused "'docs/three.md'" sh -c 'echo "[three](three.md)" >>docs/one.md'
refused "'docs/one.html#no-place': the page has no such place" sh -c 'echo "[place](docs/one.md#no-place)" >>README.md'
refused "'small/site' is not empty" sh -c 'mkdir site && touch site/file'
