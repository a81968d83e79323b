"""What ops/bench measured, as one HTML page that needs no other file: plots as inline SVG, and every figure in tables.

The page is well-formed XML, too, so that a test can read it. It knows nothing of the workloads: bench_charts.py says what
is plotted."""

import dataclasses
import html
import json

import bench_machine
from bench_hold import share_text

NATIVE, PEER, FOREBAY = "native", "peer", "forebay"
# Light to dark as the readers grow in number; the hue says whose bar it is.
_SHADES = {NATIVE: ("#c3c7cd", "#9aa0a8", "#6f757d", "#4a4f56"), PEER: ("#f0cf8e", "#dfae4d", "#b98722", "#8a6312"),
           FOREBAY: ("#a3c6ec", "#5f9bd8", "#2b6cb0", "#174a80")}
_LABEL_WIDTH, _BAR_WIDTH, _BAR_HEIGHT, _GAP = 300, 440, 13, 9
_CHARACTER_WIDTH = 7.5  # of a value's text, at most on average

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1d2126; background: #fff; max-width: 72em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { margin-top: 2em; border-bottom: 1px solid #d8dce1; } h3 { margin-bottom: 0.2em; }
p.note { color: #555b63; margin: 0.2em 0; }
table { border-collapse: collapse; font-size: 13px; margin: 0.5em 0; }
th, td { border: 1px solid #e1e4e8; padding: 2px 7px; text-align: left; vertical-align: top; }
th { background: #f5f6f8; font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
td.ok { color: #1a7f37; } td.missed { color: #b42318; font-weight: 600; }
svg { max-width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: #1d2126; }
details { overflow-x: auto; } summary { cursor: pointer; color: #2b6cb0; }
"""


@dataclasses.dataclass
class Row:
    """One subject: a bar for each of the chart's series; None where it was not measured."""
    label: str
    whose: str  # NATIVE, PEER or FOREBAY
    values: list


@dataclasses.dataclass
class Chart:
    title: str
    note: str     # what the figure means, and whether more is better
    series: list  # the names of the bars of a row, for example "8 readers"
    rows: list


@dataclasses.dataclass
class Section:
    title: str
    note: str
    charts: list


def page(document, sections):
    """`document`: the JSON of a run, all of which is in the tables; `sections`: what is plotted of it."""
    parts = ["<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8"/>',
             '<meta name="viewport" content="width=device-width, initial-scale=1"/>', "<title>Forebay: ops/bench</title>",
             f"<style>{_STYLE}</style>", "</head>", "<body>", "<h1>Forebay: ops/bench</h1>", _machine(document)]
    for section in sections:
        parts += [f"<h2>{escape(section.title)}</h2>", f'<p class="note">{escape(section.note)}</p>']
        parts += [_chart(chart) for chart in section.charts if any(_measured(row) for row in chart.rows)]
    if document.get("to_hold"):
        parts += _to_hold(document["to_hold"])
    parts += ["<h2>Every figure</h2>", _everything(document), "</body>", "</html>"]
    return "\n".join(parts) + "\n"


def escape(value):
    return html.escape(str(value), quote=True)


def _machine(document):
    when = f"Measured {document['time']}. " if "time" in document else ""
    words = bench_machine.sentences(document.get("machine", {}), document.get("versions", {}))
    return f'<p class="note">{escape(when)}{escape(". ".join(words))}</p>'


def _measured(row):
    return [value for value in row.values if value is not None]


def rounds_text(number):
    return f"Medians of {number} rounds." if number > 1 else "One round."


def short(value):
    """Three significant digits, and no exponent."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def _chart(chart):
    rows = [row for row in chart.rows if _measured(row)]
    most = max((value for row in rows for value in _measured(row)), default=0) or 1
    bars, top, longest = [], 6, 0
    for row in rows:
        begin = top
        for number, (name, value) in enumerate(zip(chart.series, row.values, strict=True)):
            if value is None:
                continue
            width = max(1.0, _BAR_WIDTH * value / most)
            middle = top + _BAR_HEIGHT - 3
            bars.append(f'<rect x="{_LABEL_WIDTH}" y="{top}" width="{width:.1f}" height="{_BAR_HEIGHT - 1}" '
                        f'fill="{_shade(row.whose, number, len(chart.series))}">'
                        f"<title>{escape(row.label)}, {escape(name)}: {short(value)}</title></rect>")
            text = short(value) + (f" ({name})" if name else "")
            longest = max(longest, len(text))
            bars.append(f'<text x="{_LABEL_WIDTH + width + 5:.1f}" y="{middle}">{escape(text)}</text>')
            top += _BAR_HEIGHT
        bars.append(f'<text x="{_LABEL_WIDTH - 8}" y="{(begin + top) / 2 + 4:.1f}" text-anchor="end">{escape(row.label)}</text>')
        top += _GAP
    width = _LABEL_WIDTH + _BAR_WIDTH + 10 + round(longest * _CHARACTER_WIDTH)
    return (f"<h3>{escape(chart.title)}</h3><p class=\"note\">{escape(chart.note)}</p>"
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(chart.title)}" width="{width}" '
            f'height="{top}" viewBox="0 0 {width} {top}">' + "".join(bars)
            + f'<line x1="{_LABEL_WIDTH}" y1="0" x2="{_LABEL_WIDTH}" y2="{top - _GAP + 3}" stroke="#6f757d"/></svg>')


def _shade(whose, number, of):
    shades = _SHADES[whose]
    return shades[2] if of == 1 else shades[min(number * len(shades) // of, len(shades) - 1)]


def _to_hold(lines):
    """Each figure to reach, then what must hold besides."""
    numbers = sorted({line["figure"] for line in lines if line.get("figure") is not None})
    parts = []
    if numbers:
        parts += ["<h2>The figures to reach</h2>", '<p class="note">A share of 1.00 or more: reached.</p>',
                  _lines([line for number in numbers for line in lines if line.get("figure") == number])]
    rest = [line for line in lines if line.get("figure") is None]
    if rest:
        parts += ["<h2>To hold</h2>", '<p class="note">Counts decide the exit code, times never.</p>', _lines(rest)]
    return parts


def _lines(lines):
    with_figures = any(line.get("figure") is not None for line in lines)
    heads = (*(("figure",) if with_figures else ()), "workload", "what", "wanted", "measured",
             *(("share",) if with_figures else ()), "")
    rows = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for line in lines:
        word, kind = {True: ("ok", "ok"), False: ("not reached", "missed"), None: ("–", "")}[line["holds"]]
        before, after = "", ""
        if with_figures:
            before = f'<td class="number">figure {line["figure"]}</td>'
            after = f'<td class="number">{share_text(line)}</td>'
        rows.append(f"<tr>{before}" + "".join(f"<td>{escape(line[key])}</td>" for key in ("workload", "what"))
                    + "".join(f'<td class="number">{escape(line[key])}</td>' for key in ("wanted", "measured"))
                    + f'{after}<td class="{kind}">{word}</td></tr>')
    return f"<table>{''.join(rows)}</table>"


def _everything(document):
    """Each key of the document; what is more than one figure is folded."""
    folded = {key: value for key, value in document.items() if isinstance(value, (dict, list))}
    single = {key: value for key, value in document.items() if key not in folded}
    return (_value(single) if single else "") + "".join(
        f"<details><summary>{escape(key)}</summary>{_value(value)}</details>" for key, value in folded.items())


def _value(value):
    """Any JSON: a list of objects is a table with a column for each key, an object one with a line for each."""
    if isinstance(value, dict):
        return "<table>" + "".join(f"<tr><th>{escape(key)}</th>{_cell(item)}</tr>" for key, item in value.items()) + "</table>"
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        keys = list(dict.fromkeys(key for item in value for key in item))
        head = "".join(f"<th>{escape(key)}</th>" for key in keys)
        lines = "".join("<tr>" + "".join(_cell(item[key]) if key in item else "<td></td>" for key in keys) + "</tr>"
                        for item in value)
        return f"<table><tr>{head}</tr>{lines}</table>"
    if isinstance(value, list):
        return "<table><tr>" + "".join(_cell(item) for item in value) + "</tr></table>" if value else "none"
    return escape(value if isinstance(value, str) else json.dumps(value))


def _cell(value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f'<td class="number">{json.dumps(value)}</td>' if number else f"<td>{_value(value)}</td>"
