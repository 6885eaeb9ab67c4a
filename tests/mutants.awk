# SPDX-License-Identifier: GPL-2.0
#
# Every single-token change of a C header's code: prints `LINE<tab>TEXT` for each,
# the number of a line and what it reads after the change. Comments and
# preprocessor lines are left alone, and so are the signatures but for their types.

function emit(start, length_, with,    text)
{
	text = substr($0, 1, start - 1) with substr($0, start + length_)
	if (text != $0)
		print FNR "\t" text
}

# All that stands in for the token at START, as a list of replacements.
function tokens(token, start,    list, n, i)
{
	n = split(stand_ins[token], list, " ")
	for (i = 1; i <= n; i++)
		emit(start, length(token), list[i] == "NOTHING" ? "" : list[i])
}

BEGIN {
	stand_ins["&&"] = "|| & =="
	stand_ins["||"] = "&& =="
	stand_ins["&"] = "| ^ && +"
	stand_ins["!"] = "NOTHING ~ -"
	stand_ins["!="] = "== <"
	stand_ins["=="] = "!="
	stand_ins[">"] = "< == != >="
	stand_ins["<"] = "> == != <="
	stand_ins["+"] = "- * / |"
	stand_ins["-"] = "+ *"
	stand_ins["*"] = "/ + -"
	stand_ins["/"] = "* % + - >>"
	stand_ins["%"] = "/ * + - &"
	stand_ins["="] = "+= -= *= |="
	stand_ins["KVM_MEM_LOG_DIRTY_PAGES"] = "KVM_MEM_READONLY 0 ~0u (1u<<2)"
	stand_ins["long"] = "int"
	stand_ins["u32"] = "__u16 bool __u8"
	stand_ins["int"] = "short char"
	stand_ins["ratio"] = "period_ms nr_pages mitigation 1 0"
	stand_ins["period_ms"] = "ratio 1 0"
	stand_ins["nr_pages"] = "ratio 1 0"
	stand_ins["mitigation"] = "ratio true false"
	stand_ins["slot_flags"] = "0 ~0u"
}

/\/\*/ { comment = 1 }
comment { if (/\*\//) comment = 0; next }
/^#/ || /^typedef/ { next }

{
	signature = /^[a-z]/

	# Drop a condition, one operand, or what follows.
	if (match($0, /if \(.*\)$/)) {
		emit(RSTART, RLENGTH, "if (0)")
		emit(RSTART, RLENGTH, "if (1)")
		emit(RSTART, RLENGTH, "if (!(" substr($0, RSTART + 4, RLENGTH - 5) "))")
	}
	if (match($0, /[a-z_]+ (&&|\|\|) [a-z_]+/)) {
		split(substr($0, RSTART, RLENGTH), operand, / (&&|\|\|) /)
		emit(RSTART, RLENGTH, operand[1])
		emit(RSTART, RLENGTH, operand[2])
	}
	if (match($0, / \+ \(.*\)/))
		emit(RSTART, RLENGTH, "")
	if (match($0, /return .*;/)) {
		emit(RSTART, RLENGTH, "return 0;")
		emit(RSTART, RLENGTH, "return 1;")
		emit(RSTART, RLENGTH, "return !(" substr($0, RSTART + 7, RLENGTH - 8) ");")
		emit(RSTART, RLENGTH, "return ~(" substr($0, RSTART + 7, RLENGTH - 8) ");")
	}

	for (at = 1; at <= length($0); at += length(token)) {
		rest = substr($0, at)
		if (match(rest, /^[A-Za-z_][A-Za-z_0-9]*/) || match(rest, /^[0-9]+/) ||
		    match(rest, /^(&&|\|\||[!=<>]=)/))
			token = substr(rest, 1, RLENGTH)
		else
			token = substr(rest, 1, 1)

		if (token ~ /^[0-9]/) {
			emit(at, length(token), token + 1)
			if (token > 0)
				emit(at, length(token), token - 1)
			if (token > 1)
				emit(at, length(token), 0)
		} else if (!signature || token ~ /^(long|u32|int)$/) {
			tokens(token, at)
		}
	}
}
