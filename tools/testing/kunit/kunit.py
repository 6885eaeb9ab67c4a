#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The kernel's own kunit.py, in a tree that has the series. tools/lab/kunit does the
# work: sh leaves for it in the next line, and python3, called by name, in the last.
"exec" "${0%/*}/../../lab/kunit" "$@"
import os, sys
os.execv(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lab/kunit"), sys.argv)
