#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# On 6.1, which gains code, KVM's exported symbols keep their CRCs: a module that was
# built for the stock kernel loads beside the patched one.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

crcs() { find "$("$LAB/objects" 6.1 "$1" modules)" -name '.*.cmd' -exec grep -h '^#SYMVER' {} + | sort; }
stock=$(crcs stock)
patched=$(crcs patched)
ok "KVM exports symbols" [ "$(wc -l <<<"$stock")" -gt 100 ]
ok "their CRCs are the same" diff <(echo "$stock") <(echo "$patched")
done_testing
