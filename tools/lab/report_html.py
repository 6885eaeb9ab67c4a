# SPDX-License-Identifier: GPL-2.0
"""The report as one page: for a browser, a printer, and a host without a network."""

import io
import json
import re
from html import escape

import matplotlib
from matplotlib.figure import Figure

# What a chart is drawn in, and what it becomes: the page's own colours, light or dark.
COLOURS = {"#010203": "--fg", "#010204": "--line", "#010205": "--before", "#010206": "--after"}
FG, LINE, *SIDE_COLOURS = COLOURS
SIDES = ("before", "after")

STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c1e21; --dim: #5c636b; --line: #d5d9de;
  --card: #f4f6f8; --before: #8a6d00; --after: #0b62c4; --warn: #b3261e; }
@media screen and (prefers-color-scheme: dark) { :root { --bg: #16181b; --fg: #e6e8ea; --dim: #a0a7af;
  --line: #3a3f45; --card: #202327; --before: #e0b437; --after: #6cb0ff; --warn: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.5rem 3rem; max-width: 78rem; background: var(--bg); color: var(--fg);
  font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.45rem; margin: 0 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
p { margin: .3rem 0; }
.dim, caption, figcaption { color: var(--dim); font-size: .88rem; }
.warn { color: var(--warn); font-weight: 600; }
.b { color: var(--before); font-weight: 600; } .a { color: var(--after); font-weight: 600; }
.answer { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: .8rem; margin: .8rem 0; }
.answer div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem; }
.answer strong { display: block; font-size: 1.7rem; line-height: 1.25; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: .8rem 2rem; }
.wide { overflow-x: auto; } .wide + .wide { margin-top: 1.2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .2rem; }
th, td { padding: .22rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child, .text td, .text th { text-align: left; }
tr.total td { font-weight: 600; }
tr.differs td { background: var(--card); font-weight: 600; }
.text td:first-child { white-space: nowrap; }
figure { margin: .8rem 0; }
svg { width: 100%; height: auto; }
svg text { font-family: system-ui, sans-serif; }
code { font-size: .9em; }
@media print { body { padding: 0; max-width: none; font-size: 10pt; } h2 { break-after: avoid; }
  .answer { grid-template-columns: repeat(3, 1fr); }
  figure, tr, .answer div { break-inside: avoid; } }
"""


def draw(figure, title):
    """FIGURE as markup that belongs into the page, in the page's colours."""
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(out, format="svg", transparent=True,
                       metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = out.getvalue()
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    for colour, name in COLOURS.items():
        svg = svg.replace(colour, f"var({name})")
    # Several charts are in one page.
    prefix = re.sub(r"\W", "", title)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def plain(text):
    """TEXT for a chart: as it is, and no longer than there is room for."""
    text = text if len(text) <= 28 else text[:27] + "…"
    return text.replace("$", r"\$")


def style_axes(axes):
    for spine in axes.spines.values():
        spine.set_color(LINE)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", colors=FG, labelsize=9)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.title.set_color(FG)
    axes.xaxis.label.set_color(FG)
    axes.yaxis.label.set_color(FG)


def amount(ns):
    return f"{ns / 1e6:.3f} ms" if ns < 1e8 else f"{ns / 1e6:.0f} ms"


def bars(cases, titles):
    """Each case's figures relative to its median before, with each run as a dot."""
    names = [name for name, case in cases.items()
             if all(case[key] and case[key]["before"]["median"] for key in titles)]
    if not names:
        return None
    figure = Figure(figsize=(11, 0.8 + 0.52 * len(names)), layout="constrained")
    all_axes = figure.subplots(1, len(titles), sharey=True)
    for axes, (key, title) in zip(all_axes, titles.items()):
        for i, name in enumerate(names):
            whole = cases[name][key]["before"]["median"]
            for side, offset, colour in zip(SIDES, (-0.2, 0.2), SIDE_COLOURS):
                runs = cases[name][key][side]["runs"]
                median = cases[name][key][side]["median"]
                axes.barh(i + offset, median / whole * 100, 0.36, color=colour, alpha=0.45)
                # Side by side, lest runs that agree hide each other.
                spread = [0.26 * (n / (len(runs) - 1) - 0.5) if len(runs) > 1 else 0
                          for n in range(len(runs))]
                axes.plot([run / whole * 100 for run in runs], [i + offset + s for s in spread], "o",
                          color=colour, markersize=3.2, clip_on=False)
                axes.text(max(runs + [median]) / whole * 100 + 2, i + offset, amount(median),
                          va="center", fontsize=8, color=FG)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("% of the median before", fontsize=9)
        axes.set_xlim(0, axes.get_xlim()[1] * 1.18)
        style_axes(axes)
        axes.grid(visible=False, axis="y")
    all_axes[0].set_yticks(range(len(names)), [plain(name) for name in names])
    all_axes[0].set_ylim(len(names) - 0.4, -0.6)
    return draw(figure, "Bars per case")


def growth(cases):
    """The worker's time with the pages, and with the slots: lines on log axes."""
    panels = {"pages": "Huge pages, 16 slots", "slots": "Memslots, the same memory"}
    lines = {}
    for name, case in cases.items():
        match = re.match(r"(pages|slots)-\d+-(\w+)$", name)
        if not match or not case["worker_ns"] or not case["split"]:
            continue
        slots = re.search(r"-x (\d+)", case["command"])
        for side in SIDES:
            x = case["split"][side]["median"] if match[1] == "pages" else slots and int(slots[1])
            y = case["worker_ns"][side]["median"]
            if x and x > 0 and y > 0:
                lines.setdefault((match[1], side, match[2]), []).append((x, y / 1e6))
    shown = [family for family in panels if any(key[0] == family for key in lines)]
    if not shown:
        return None
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    for axes, family in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown):
        # The dashed ones last: what lies below them can still be seen.
        for (of, side, logged), points in sorted(lines.items(), key=lambda item: item[0][2]):
            if of != family:
                continue
            axes.plot(*zip(*sorted(points)), marker="o", markersize=4, linewidth=1.6,
                      color=SIDE_COLOURS[SIDES.index(side)],
                      linestyle="-" if logged == "all" else "--" if logged == "none" else ":",
                      label=plain(f"{side}, logged: {logged}"))
        ticks = sorted({x for key, points in lines.items() if key[0] == family for x, _ in points})
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(ticks, [f"{x:.0f}" for x in ticks])
        axes.minorticks_off()
        axes.set_xlabel(panels[family], fontsize=9)
        axes.set_ylabel("CPU time of the worker, ms", fontsize=9)
        style_axes(axes)
        axes.legend(fontsize=8, frameon=False, labelcolor=FG)
    return draw(figure, "Growth of the cost")


def page(data, text):
    """The page for DATA, which is what --json writes; TEXT is the report's module."""
    cases, runs = data["compared"], [data[side] for side in SIDES]

    def cell(name, key, *path, show):
        """A figure, and where in the JSON it stands."""
        value = cases[name][key]
        for step in path:
            value = value[step]
        if value is None:
            return "<td>-</td>"
        where = "\t".join(map(str, (name, key, *path)))
        return f'<td data-figure="{escape(where)}" data-value="{value}">{escape(show(value))}</td>'

    def absent(columns):
        return "<td>-</td>" * columns

    def table(head, rows, caption="", css=""):
        return (f'<div class="wide"><table class="{css}"><caption>{caption}</caption><thead><tr>'
                + "".join(f"<th>{h}</th>" for h in head) + "</tr></thead><tbody>"
                + "".join(rows) + "</tbody></table></div>")

    def row(*cells, css=""):
        return f'<tr class="{css}">{"".join(cells)}</tr>'

    def bounds(diff, *unit):
        return escape(text.bounds(diff, *unit))

    def seeds_table(name, what):
        worker = cases[name]["worker_ns"]
        rows = []
        for n in range(max(len(side) for side in runs)):
            rows.append(row(f"<td>{n + 1}</td>", *(
                cell(name, "worker_ns", side, "runs", n, show=text.ms)
                if n < len(worker[side]["runs"]) else absent(1) for side in SIDES)))
        rows.append(row("<td>median</td>", *(cell(name, "worker_ns", side, "median", show=text.ms)
                                             for side in SIDES), css="total"))
        rows.append(row("<td>spread</td>", *(
            cell(name, "worker_ns", side, "spread", show=lambda v: f"{v * 100:.2f} %")
            for side in SIDES)))
        rows.append(row("<td>change</td>", "<td></td>",
                        cell(name, "worker_ns", "difference", "relative", show=text.percent),
                        css="total"))
        return (f"<section><h3>{escape(what[0].upper() + what[1:])}</h3>"
                + table(("Run", '<span class="b">Before</span>', '<span class="a">After</span>'), rows,
                        f"{escape(text.WORKER)}, ms")
                + f'<p class="dim">Change: {bounds(worker["difference"])}. '
                + f'<code>{escape(cases[name]["command"])}</code></p></section>')

    def tile(title, name, key):
        figure = cases.get(name, {}).get(key)
        if not figure:
            return ""
        diff = figure["difference"]
        ratio, unit = text.times(diff["relative"]), text.percent
        big = text.percent(diff["relative"])
        if ratio.endswith("x"):
            big, unit = f"{ratio[:-1]} times less", text.times
        return (f"<div>{escape(title)}<strong>{escape(big)}</strong>"
                f'<span class="b">{amount(figure["before"]["median"])}</span> → '
                f'<span class="a">{amount(figure["after"]["median"])}</span><br>'
                f'<span class="dim">{bounds(diff, unit)}</span></div>')

    def cost_table(key, title):
        rows = []
        for name, case in cases.items():
            first = f"<td>{escape(name)}</td>"
            if not case[key]:
                rows.append(row(first, absent(6)))
                continue
            diff = case[key]["difference"]
            rows.append(row(
                first, *(cell(name, key, side, "median", show=text.ms) for side in SIDES),
                cell(name, key, "difference", "relative", show=text.times),
                f'<td>{escape(text.interval(diff, text.times))}</td>',
                *(cell(name, key, side, "spread", show=lambda v: f"{v * 100:.2f} %")
                  for side in SIDES)))
        return table(("Case", "before", "after", "before/after", "95 % interval", "spread before",
                      "after"), rows, escape(title))

    def count_table():
        rows = []
        for name, case in cases.items():
            rows.append(row(f"<td>{escape(name)}</td>", *(
                cell(name, key, side, "median", show=lambda v: f"{v:,.0f}".replace(",", " "))
                if case[key] else absent(1)
                for key in ("split", "zapped", "again_faults") for side in SIDES)))
        return table(("Case", "split before", "after", "zapped before", "after",
                      "faults before", "after"), rows,
                     "Huge pages split by executing from them; 4 KiB mappings that recovery zapped; "
                     "faults of the guest on executing again. Medians.")

    def environment():
        rows = []
        keys = dict.fromkeys(key for side in runs for run in side for key in run if key != "cases")
        for key in keys:
            values = [list(dict.fromkeys(run.get(key, "-") for run in side)) for side in runs]
            rows.append(row(f"<td>{escape(key)}</td>", *(
                f"<td>{escape(' / '.join(value))}</td>" for value in values),
                css="" if values[0] == values[1] else "differs"))
        return table(("", '<span class="b">Before</span>', '<span class="a">After</span>'), rows,
                     "What the runs tell about themselves; lines that differ are marked.", "text")

    before, after = (side[0] for side in runs)
    embedded = json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    charts = [
        ("Each case", bars(cases, {"worker_ns": "CPU time of the worker",
                                   "again_ns": "Guest executes its memory again"}),
         "Bars are medians, each dot is a run."),
        ("Growth with pages and slots", growth(cases),
         "Both axes are logarithmic; a flat line is a cost that does not grow. Dashed: no slot logged."),
    ]
    out = [
        "<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta http-equiv="Content-Security-Policy" '
        'content="default-src \'none\'; style-src \'unsafe-inline\'">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>NX huge page recovery, before and after</title>", f"<style>{STYLE}</style></head><body>",
        "<h1>NX huge page recovery: what the change buys</h1>",
        f'<p><span class="b">Before</span>: {escape(text.kernel_name(before))}, runs: {len(runs[0])}. '
        f'<span class="a">After</span>: {escape(text.kernel_name(after))}, runs: {len(runs[1])}.</p>',
        f'<p class="dim">Machine {escape(before["machine"])}, {escape(before.get("cpu", "unknown CPU"))}, '
        f'clock: {escape(before["clock"])}'
        + (f": an instruction takes {'ten nanoseconds' if before['machine'] == 'intel' else 'a nanosecond'}.</p>"
           if before["clock"] == "instructions" else ".</p>"),
        *(f'<p class="warn">Not comparable: {escape(what)}</p>' for what in data["not_comparable"]),
        '<div class="answer">',
        tile("Worker's CPU time, all slots dirty logged", "seed-all", "worker_ns"),
        tile("Guest executes it again, all slots dirty logged", "seed-all", "again_ns"),
        tile("Worker's CPU time, no slot dirty logged", "seed-none", "worker_ns"),
        '</div><div class="pair">',
        *(seeds_table(name, what) for name, what in text.titled(cases).items()), "</div>",
    ]
    for title, chart, caption in charts:
        if chart:
            out.append(f"<h2>{title}</h2><figure>{chart}<figcaption>"
                       f'<span class="b">before</span>, <span class="a">after</span>. {caption}'
                       "</figcaption></figure>")
    out += ["<h2>Every case</h2>", *(cost_table(key, title) for key, title in text.COSTS.items()),
            f'<p class="dim">{escape(data["method"])}</p>',
            "<h2>What KVM counted</h2>", count_table(), "<h2>Environment</h2>", environment(),
            f'<script type="application/json" id="figures">{embedded}</script>', "</body></html>", ""]
    return "\n".join(line for line in out if line)
