#!/usr/bin/env bash
# Two workers on two hosts with a slow link between them, measured beside what `asr-parallel project` predicts:
#     benchmarks/network.sh [--big] [--rate 100Mbit] [--minutes 15] [--every "10 minibatches"] [--ways plain bf16 ...]
# Needs root on Linux with ip and tc, for network namespaces; without them it says so and ends with 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
skip() { echo "network: skipped: $1" >&2; exit 0; }
[ "$(id -u)" = 0 ] || skip "only root can make network namespaces"
for tool in ip tc; do command -v "$tool" > /dev/null || skip "there is no $tool (Debian's package iproute2)"; done
try="asr$$try"
trap 'ip netns delete "$try" 2> /dev/null || true' EXIT
why=$(ip netns add "$try" 2>&1) || skip "no network namespaces here: $why"
why=$(ip netns exec "$try" tc qdisc add dev lo root tbf rate 1mbit burst 64kb latency 100ms 2>&1) \
    || skip "tc cannot slow a link down here: $why"
python=.venv/bin/python
[ -x "$python" ] || python=python3
"$python" benchmarks/network.py "$@"
