#!/usr/bin/env bash
# Draws four rows of the episode; every window of three steps is whole or ends with the episode.
set -euo pipefail
[ "$(./buffer_demo | grep -cE '^obs [0-9] -> next_obs [0-9]+ after [123] steps')" = 4 ]
