#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What tools/lab/report prints, writes and refuses, by runs made up for this test. The
# page is loaded in Chromium where that is installed; 'report.t full' installs it.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

need /usr/bin/python3:python3
matplotlib=/usr/lib/python3/dist-packages/matplotlib
[ "${1:-}" != full ] || need chromium:chromium $matplotlib:python3-matplotlib

report=$LAB/report
runs=$TOP/tests/report
cd "$work" || exit

# fresh: the runs, to be broken.
fresh()
{
	rm -rf r
	cp -r "$runs" r
}

# prints TEXT COMMAND...: COMMAND succeeds, and TEXT stands in a line of its own.
prints()
{
	local text=$1
	shift
	"$@" >out 2>err || { cat err; return 1; }
	grep -qxF -- "$text" out || { cat out; return 1; }
}

# notes TEXT COMMAND...: COMMAND succeeds, and says TEXT on stderr.
notes()
{
	local text=$1
	shift
	"$@" >out 2>err && grep -qF -- "$text" err || { cat err; return 1; }
}

# one_line STATUS TEXT COMMAND...: nothing else is said, on either channel.
one_line()
{
	refuses "$@" || return
	shift 2
	"$@" >out 2>err || :
	[ ! -s out ] && [ "$(wc -l <err)" = 1 ] || { cat out err; return 1; }
}

# The tables
ok "the seeds' table: each run" prints '3       4.755756  0.053823' "$report" "$runs"
ok "... the median" prints 'median  4.753037  0.053817' "$report" "$runs"
ok "... the change" prints 'change            -98.87 %' "$report" "$runs"
ok "... its interval" prints "Change: -0.07 %..+0.15 % (Welch's t, 95 %)" "$report" "$runs"
ok "growth per huge page" prints 'slots-125-all         500  148391     1.000     163     2.333' "$report" "$runs"
ok "the first folder is the one before" prints 'before  Linux 6.1.192-3, patched, runs: 3' \
	"$report" "$runs"/patched-* "$runs"/stock-*
ok "one run has no interval" prints 'Change: one run: no interval' "$report" "$runs"/stock-1 "$runs"/patched-*
fresh
for run in 2 3; do
	cp r/stock-1/output r/stock-$run/output
	cp r/patched-1/output r/patched-$run/output
done
ok "identical runs differ by exactly that" prints 'Change: -98.87 %..-98.87 % (identical runs)' "$report" r

# The interval by another way: the published points of Student's t.
quantiles()
{
	/usr/bin/python3 - "$report" <<-'END'
		import importlib.machinery, importlib.util, sys
		sys.dont_write_bytecode = True
		loader = importlib.machinery.SourceFileLoader("report", sys.argv[1])
		report = importlib.util.module_from_spec(importlib.util.spec_from_loader("report", loader))
		loader.exec_module(report)
		for df, want in ((1, 12.706), (2, 4.303), (4, 2.776), (10, 2.228), (30, 2.042), (120, 1.980)):
		    assert abs(report.t_quantile(df) - want) < 0.0006, (df, report.t_quantile(df))
		made_up = [report.summary(values) for values in ([100, 101, 102], [110, 111, 113])]
		found = report.difference(*made_up)
		assert abs(found["relative"] - 10 / 101) < 1e-9, found
		# By hand: the logarithms differ by 0.0974, with a standard error of 0.00976 and df 3.64.
		assert abs(found["low"] - 0.0716) < 0.0005 and abs(found["high"] - 0.1338) < 0.0005, found
	END
}
ok "Student's t, and Welch's interval" quantiles

# Markdown
ok "Markdown: the seeds' form" prints '1       | 4.751385           | 0.053811            |' "$report" --markdown "$runs"
ok "... comes first" bash -c '"$0" --markdown "$1" | sed -n 8p | grep -qx "Run     | Before             | After               |"' "$report" "$runs"
ok "... in 75 columns" bash -c '! "$0" --markdown "$1" | grep -E "^.{76}"' "$report" "$runs"

# KTAP
ok "KTAP: a line per case" prints 'ok 3 seed-all' "$report" --ktap "$runs"
ok "... a plan" prints '1..9' "$report" --ktap "$runs"
fresh
sed -i '/^# case seed-all/,/^# status/s/^\(Executing after recovery.*s  *\)0 /\17 /' r/patched-2/output
ktap_fails()
{
	local status=0
	"$report" --ktap r >out 2>err || status=$?
	[ "$status" = 1 ] && [ "$(grep -c 'not ok' out)" = 2 ] && grep -qx 'not ok 3 seed-all' out &&
		grep -qx '  # not so in: after, run 2' out || { cat out err; return 1; }
}
ok "... faults of what was kept fail, with the run" ktap_fails

# JSON, against the runs' own lines.
json()
{
	"$report" --json figures.json "$runs" >out || return
	/usr/bin/python3 - "$runs" <<-'END'
		import json, pathlib, re, statistics, sys
		data = json.load(open("figures.json"))
		assert json.loads(json.dumps(data)) == data
		assert len(data["compared"]) == 9
		for side, name in (("before", "stock"), ("after", "patched")):
		    for case, figures in data["compared"].items():
		        values = []
		        for n in "123":
		            text = pathlib.Path(sys.argv[1], f"{name}-{n}", "output").read_text()
		            part = re.search(rf"# case {case}: (.*?)# status 0", text, re.S)[1]
		            ms = re.search(r"sum_exec_runtime +: ([\d.]+)", part)[1]
		            values.append(int(ms.replace(".", "")))
		        assert figures["worker_ns"][side]["runs"] == values, case
		        assert figures["worker_ns"][side]["median"] == statistics.median(values), case
	END
}
ok "JSON has the runs' figures" json
ok "what can't be written" refuses 2 "can't write" "$report" --json "$work/none/figures.json" "$runs"
ok "... neither on standard output" refuses 2 "can't write to standard output" bash -c '"$0" "$1" >/dev/full' "$report" "$runs"
ok "... leaves nothing else" test -z "$(find . -name '.*.json.*')"

# What is no run, or not a whole one
ok "no such folder" one_line 2 "r/none: there is no such folder" "$report" r/none
ok "a file" one_line 2 "is no folder" "$report" "$runs/stock-1/output"
mkdir empty foreign
echo hello >foreign/output
ok "an empty folder" one_line 2 "empty: is not a result of tools/lab/bench" "$report" empty "$runs"
ok "a foreign folder" one_line 2 "foreign: is not a result of tools/lab/bench" "$report" foreign "$runs"
head -c 5000 /dev/urandom >foreign/run.json
ok "a foreign run.json" one_line 2 "a run.json that is no JSON" "$report" foreign "$runs"
echo '{"side": 1}' >foreign/run.json
ok "... with other values than strings" one_line 2 "not an object of strings" "$report" foreign "$runs"
echo '{}' >foreign/run.json
ok "... without what tells sides apart" one_line 2 "run.json does not tell the side" "$report" foreign "$runs"
fresh
mv r/stock-2 r/stock-2.partial
ok "a run that was cut off" one_line 2 "was cut off, its figures do not count" "$report" r/stock-2.partial "$runs"
ok "... is left out of a folder of runs" notes "stock-2.partial was cut off, and is left out" "$report" r
ok "... visibly" grep -qx 'before  Linux 6.1.192-3, stock, runs: 2' out
fresh
sed -i '/^# case pages-1-all/,$d' r/stock-1/output
ok "an output that ends between two cases" one_line 2 "was cut off: 4 of 9 cases are there" "$report" r
fresh
sed -i '/^# case pages-1-all/,$ { /^Executing after/,$d }' r/stock-1/output
ok "an output that ends within a case" one_line 2 "case pages-1-all was cut off" "$report" r
fresh
: >r/stock-1/output
ok "an empty output" one_line 2 "has no case" "$report" r
rm r/stock-1/output
ok "no output" one_line 2 "output: No such file" "$report" r
ok "one kernel only" one_line 2 "runs of Linux 6.1.192-3 stock alone" "$report" "$runs"/stock-*
fresh
cp -r r/stock-1 r/stock-4
ok "a run and its copy" one_line 2 "holds a run that" "$report" r

# Figures that are zero, or that are not there
fresh
sed -i 's/\(sum_exec_runtime *: \)[0-9.]*/\10.000000/' r/*/output
ok "a worker that never ran" prints 'seed-all       0.000000  0.000000             -              -       -' "$report" r
ok "... has no interval" prints 'Change: a figure is zero: no interval' "$report" r
fresh
sed -i 's/\(sum_exec_runtime *: \).*/\1not available, is this the host'\''s PID namespace?/' r/stock-2/output
ok "a worker that was not found" notes "case seed-all has no worker_ns, not all runs tell it" "$report" r
ok "... leaves what the guest pays" grep -q '^seed-all .* 417x' out
fresh
sed -i '/^Recovering/d' r/*/output
ok "no recovery" prints 'ok 3 seed-all' "$report" --ktap r
ok "... is skipped" grep -qx '  ok 3 recovery leaves no huge page split # SKIP a run does not tell' out
fresh
sed -i '/^# case seed-half/,/^# status 0/d; ' r/stock-3/output
sed -i '/"cases"/d' r/stock-3/run.json
ok "a case that one run lacks" notes "case seed-half is left out, not all runs have it" "$report" r

fresh
sed -i "s/^\(Executing after recovery *: *\)[0-9]*/\1$(printf '9%.0s' {1..5000})/" r/stock-1/output
ok "a number that is none" notes "case seed-all has no again_ns" "$report" r

# What can't be compared
# differs TEXT SED FILE...: refused with TEXT once FILEs were edited; not with --force.
differs()
{
	local text=$1 edit=$2
	shift 2
	fresh
	sed -i "$edit" "$@"
	one_line 2 "$text" "$report" r && prints "NOT COMPARABLE: ${text#*: }" "$report" --force r
}
ok "another CPU" differs "not comparable: cpu is 'Other' and 'QEMU TCG CPU version 2.5+'" 's/^# cpu: .*/# cpu: Other/' r/stock-2/output
ok "another machine" differs "not comparable: machine is 'amd' and 'intel'" 's/"machine": .*/"machine": "intel",/' r/patched-*/run.json
ok "another clock" differs "not comparable: clock is 'instructions' and 'time'" 's/"clock": .*/"clock": "time",/' r/patched-*/run.json
ok "another mode of the MMU" differs "not comparable: tdp_mmu is 'N' and 'Y'" 's/^# tdp_mmu: .*/# tdp_mmu: N/' r/patched-*/output
ok "another version" differs "not comparable: the versions are 6.1.190-1 and 6.1.192-3" 's/"version": .*/"version": "6.1.190-1",/' r/stock-*/run.json
fresh
sed -i 's/^# thp: .*/# thp: always/' r/patched-1/output
ok "what may make a difference is noted" notes "not the same everywhere: thp is 'always' and 'madvise'" "$report" r
ok "other options" refuses 2 "case seed-all is './execute_perf_test -b 128M" bash -c 'rm -rf r; cp -r "$1" r
	sed -i "/^# case seed-all/s/64M/128M/" r/patched-1/output; exec "$0" r' "$report" "$runs"
fresh
sed -i 's/"version": .*/"version": "6.1.190-1",/' r/stock-3/run.json
ok "three kernels" one_line 2 "two kernels are compared" "$report" --force r
fresh
sed -i 's/"machine": .*/"machine": "host",/; s/"clock": .*/"clock": "time",/; s/"version": .*/"version": "6.1.0-57-amd64",/' r/*/run.json
sed -i 's/"version": .*/"version": "6.1.192-mine",/' r/patched-*/run.json
ok "two builds of one version on a host" prints 'after   Linux 6.1.192-mine, patched, runs: 3' "$report" r
sed -i 's/"version": .*/"version": "6.12.94-mine",/' r/patched-*/run.json
ok "two versions on a host" one_line 2 "the versions are 6.1 and 6.12" "$report" r

# Hostile text
fresh
evil='</script><script>document.title=1</script><img src=http://127.0.0.1:9/x onerror="document.title=2">|`$x$`&amp;'
for side in stock patched; do
	for run in 1 2 3; do
		{ printf 'evil: %s\n' "$evil"; sed -n 's/^  "\(.*\)": "\(.*\)",*$/\1: \2/p' "$runs/$side-$run/run.json"; } |
			"$LAB/measure" -j | sed 's/"\(evil\|side\)": "/&\\u001b[2J/' >r/$side-$run/run.json
		EVIL=$evil awk '/^# case seed-half: / { sub(/seed-half/, "<b>$x$|half</b>") }
			/^# cpu: / { print "# cpu: " ENVIRON["EVIL"]; next } { print }' "$runs/$side-$run/output" >r/$side-$run/output
		printf '# case \033]0;x\007<i>: ./x -d <u> | cat\n# status 0\n' >>r/$side-$run/output
	done
	sed -i '/"cases"/d' r/$side-*/run.json
done
ok "hostile text does not steer a terminal" bash -c '"$0" r >out 2>err && ! grep -q "[[:cntrl:]]" out err' "$report"
ok "... is escaped in Markdown" bash -c '"$0" --markdown r >out 2>err && ! grep -qE "(^|[^\\])<(b|i|script)>" out' "$report"
ok "... in KTAP" bash -c '"$0" --ktap r >out 2>err || :; ! grep -q "[[:cntrl:]]" out' "$report"

# The page
# same_figures DOM: what the page shows and holds is what the JSON has.
same_figures()
{
	/usr/bin/python3 - "$@" <<-'END'
		import html.parser, json, sys
		class Page(html.parser.HTMLParser):
		    shown, tags, held = {}, [], None
		    def handle_starttag(self, tag, attributes):
		        attributes = dict(attributes)
		        self.tags.append(tag)
		        if "data-figure" in attributes:
		            self.shown[attributes["data-figure"]] = attributes["data-value"]
		        self.held = "" if tag == "script" else self.held
		    def handle_data(self, text):
		        if self.tags and self.tags[-1] == "script":
		            self.held += text
		page = Page()
		page.feed(open(sys.argv[1], encoding="utf-8").read())
		data = json.load(open(sys.argv[2]))
		assert json.loads(page.held) == data, "the JSON within"
		for path, value in page.shown.items():
		    figure = data["compared"]
		    for step in path.split("\t"):
		        figure = figure[int(step) if isinstance(figure, list) else step]
		    assert float(value) == figure, path
		print(len(page.shown), "figures")
		assert len(page.shown) > 13 * len([c for c in data["compared"].values() if c["worker_ns"]])
		assert page.tags.count("script") == 1, "a script"
		assert not set(page.tags) & {"img", "b", "i", "u", "link", "iframe", "object"}, set(page.tags)
		assert page.tags.count("svg") == 2
	END
}
if [ ! -e $matplotlib ]; then
	ok "the page # SKIP python3-matplotlib is not installed (make check-report)" true
	done_testing
	exit
fi
ok "the page is written" "$report" --html page.html --json page.json "$runs"
ok "... its figures equal the JSON's" same_figures page.html page.json
ok "... it names no address" bash -c '! sed "s/xmlns[:a-z]*=\"[^\"]*\"//g" page.html | grep -E "(src|href)=\"?[^\"#]|https?:|@import|url\([^#]"'
ok "... a second one is the same" bash -c '"$0" --html page2.html "$1" >out && cmp page.html page2.html' "$report" "$runs"
ok "the page of hostile text" "$report" --html evil.html --json evil.json r
ok "... its figures equal the JSON's" same_figures evil.html evil.json
ok "a page of one run each" "$report" --html one.html "$runs/stock-1" "$runs/patched-1"
fresh
sed -i 's/\(sum_exec_runtime *: \)[0-9.]*/\10.000000/; s/\(Executing after recovery *: *\)[0-9.]*s/\10.000000000s/' r/*/output
ok "a page of nothing but zeros" "$report" --html zero.html r

if ! command -v chromium >/dev/null; then
	ok "the page in Chromium # SKIP chromium is not installed (make check-report)" true
	done_testing
	exit
fi

# browse FILE [OPTION]...: load it; the DOM in dom, the console in console.
browse()
{
	local file=$1 sandbox=()
	shift
	# Root has no sandbox to drop into.
	[ "$(id -u)" != 0 ] || sandbox=(--no-sandbox)
	timeout -k 5 120 chromium --headless=new "${sandbox[@]}" --disable-gpu --no-first-run --hide-scrollbars \
		--disable-background-networking --disable-component-update --user-data-dir="$work/chromium" \
		--window-size=1280,800 --enable-logging=stderr "$@" --dump-dom "file://$work/$file" >dom 2>log
	grep CONSOLE log >console || :
}

loads()
{
	browse "$1" && [ ! -s console ] && same_figures dom "$2" || { cat console; tail -n 5 log; return 1; }
}

sed 's,<body>,<body><img src="http://127.0.0.1:9/x">,' page.html >control.html
browse control.html
ok "Chromium tells of a request" grep -q 'Content Security Policy' console
ok "the page loads without error or request, with the JSON's figures" loads page.html page.json
ok "... hostile text is but text" loads evil.html evil.json

# Where things are, once the page is laid out: by a script that the page itself forbids.
script='const bottom = what => Math.max(...[...document.querySelectorAll(what)].map(e => e.getBoundingClientRect().bottom));
	document.body.dataset.bottom = Math.round(bottom(".answer, .pair table"));
	document.body.dataset.excess = document.documentElement.scrollWidth - innerWidth;
	document.body.dataset.colour = getComputedStyle(document.body).backgroundColor;'
{
	sed 's/<meta http-equiv[^>]*>//; s,</body>.*,,' page.html
	echo "<script>$script</script></body></html>"
} >layout.html

# laid_out ATTRIBUTE TEST...: what the script found passes test.
laid_out()
{
	local value
	value=$(sed -n "s/.* data-$1=\"\([^\"]*\)\".*/\1/p" dom | head -n 1)
	shift
	test "$value" "$@" || { echo "is '$value'"; return 1; }
}
browse layout.html --blink-settings=preferredColorScheme=1
ok "the answer is in the first screen" laid_out bottom -le 780
ok "nothing is wider than the screen" laid_out excess -le 0
ok "light" laid_out colour = 'rgb(255, 255, 255)'
browse layout.html --blink-settings=preferredColorScheme=0
ok "dark" laid_out colour = 'rgb(22, 24, 27)'
browse layout.html --window-size=500,800
ok "nothing is wider than a narrow screen" laid_out excess -le 0
done_testing
