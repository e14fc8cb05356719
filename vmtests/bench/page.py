# SPDX-License-Identifier: Apache-2.0
"""The summary as one self-contained HTML page, except for the picture."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .catalogue import Agent
from .summary import MEASURES, Cell, Ratio
from .table import headings, ratio_line, row
from .targets import Target

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 110rem; padding: 0 1rem;
       color: #1c2430; background: #fff; }
table { border-collapse: collapse; font-size: 13px; }
.wide { overflow-x: auto; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #d8dee6; text-align: left;
         white-space: nowrap; font-variant-numeric: tabular-nums; }
tr.ours td:first-child { font-weight: 600; }
td.right { background: #e2f4e6; }
td.wrong, li.wrong { background: #fbdedd; }
td.none { background: #eef0f3; }
img { max-width: 100%; }
dt { font-weight: 600; } dd { margin: 0 0 .6rem 0; }
"""


def render(
    cells: list[Cell], agents: list[Agent], titles: dict[str, str], ratios: list[Ratio],
    aims: list[Target], invocations: list[dict[str, str]], picture: str | None,
) -> str:  # fmt: skip
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>Forestall beside its peers</title><style>{_STYLE}</style>",
        "<h1>Forestall beside its peers</h1>",
        *(f"<p>{escape('; '.join(f'{name}: {value}' for name, value in facts.items()))}</p>"
          for facts in invocations),
        "<p>Median [least..most] of the runs of each agent. Time is the guest's: one nanosecond an "
        "instruction, plus real time while it is idle.</p>",
    ]  # fmt: skip
    if picture:
        parts.append(f"<p><img src='{escape(picture)}' alt='Latencies and stalls by scenario'></p>")
    ours = {agent.name for agent in agents if agent.ours}
    for name in dict.fromkeys(cell.scenario for cell in cells):
        parts.append(f"<h2>{escape(name)}: {escape(titles.get(name, ''))}</h2>")
        parts += _table([cell for cell in cells if cell.scenario == name], ours)
    failures = [(cell, text) for cell in cells for text in cell.failures]
    if failures:
        parts.append("<h2>Runs that failed</h2><ul>")
        parts += [f"<li>{escape(f'{c.scenario} {c.agent}: {text}')}</li>" for c, text in failures]
        parts.append("</ul>")
    parts.append("<h2>From the line to SIGKILL</h2><ul>")
    parts += [f"<li>{escape(ratio_line(ratio))}</li>" for ratio in ratios]
    parts.append("</ul><h2>Targets</h2><ul>")
    parts += [
        f"<li class='{'wrong' if aim.met is False else ''}'>{escape(aim.line())}</li>"
        for aim in aims
    ]
    parts.append("</ul><h2>Agents</h2><dl>")
    parts += [
        f"<dt>{escape(a.name)}: {escape(a.title)}</dt><dd>{escape(a.configuration)}</dd>"
        for a in agents
    ]
    parts.append("</dl><h2>Columns</h2><dl>")
    parts += [f"<dt>{escape(m.title)}</dt><dd>{escape(m.meaning)}</dd>" for m in MEASURES]
    parts.append("</dl></html>\n")
    return "\n".join(parts)


def _table(cells: list[Cell], ours: set[str]) -> Iterator[str]:
    yield "<div class='wide'><table><tr>"
    yield "".join(f"<th>{escape(each)}</th>" for each in headings())
    yield "</tr>"
    for cell in cells:
        yield f"<tr class='{'ours' if cell.agent in ours else ''}'>"
        for number, text in enumerate(row(cell)):
            name = next(iter(cell.verdicts)) if number == 2 and len(cell.verdicts) == 1 else ""
            yield f"<td class='{name}'>{escape(text)}</td>"
        yield "</tr>"
    yield "</table></div>"
