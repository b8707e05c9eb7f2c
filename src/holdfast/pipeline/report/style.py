"""How the audit's report looks: one sheet, light and dark, no fonts or pictures from elsewhere.

The colours are Okabe and Ito's, which people who see colours differently can tell apart, a little lighter on dark.
"""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --edge: #e3e3df; --ink: #24292e; --soft: #5d666f; --faint: #eeeeea;
  --delivered: #0072b2; --recovered: #009e73; --replica: #cc79a7; --late: #e69f00; --lost: #d55e00;
  --good: #00734f; --bad: #b8430a; --good-back: #e3f3ec; --bad-back: #fbe7dc;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1c2024; --edge: #31373d; --ink: #e4e8eb; --soft: #a3adb6; --faint: #272c31;
    --delivered: #4aa8e0; --recovered: #2fc79b; --replica: #dd97bd; --late: #f0b840; --lost: #f0803c;
    --good: #52d3a7; --bad: #ff9d6b; --good-back: #16352b; --bad-back: #43261a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main { max-width: 1352px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0; font-weight: 650; }
h2 { font-size: 16px; margin: 0 0 2px; font-weight: 650; }
.about { color: var(--soft); margin: 6px 0 20px; overflow-wrap: anywhere; }
.says { color: var(--soft); font-size: 13.5px; margin: 0 0 10px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-bottom: 16px; }
.tile, .card { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
.tile { padding: 12px 14px; }
.tile b { display: block; font-size: 22px; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.tile.bad b { color: var(--bad); }
.chips { display: flex; flex-wrap: wrap; gap: 8px; margin-bottom: 16px; }
.chip { border-radius: 12px; padding: 2px 11px; font-size: 13px; }
.columns { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; align-items: start; }
.column { display: grid; grid-template-columns: minmax(0, 1fr); gap: 16px; }
.card { padding: 16px 18px; min-width: 0; }
.card.wide { margin: 16px 0; }
@media (max-width: 1100px) {
  .columns { grid-template-columns: minmax(0, 1fr); }
  .column { display: contents; }
  .columns .card { order: var(--place); }
}
.scroll { overflow-x: auto; }
.scroll + .scroll { margin-top: 14px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { padding: 4px 14px 4px 0; text-align: left; vertical-align: baseline; border-bottom: 1px solid var(--faint); }
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 500; font-size: 12.5px; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
.name { white-space: nowrap; }
.bar { width: 38%; min-width: 70px; }
.bar i { display: block; height: 11px; border-radius: 2px; min-width: 1px; }
td.bar { vertical-align: middle; }
.bar:has(i + i) i { height: 7px; margin-top: 1px; }
.scroll + .says { margin-top: 8px; }
i.parts { width: 100%; }
.state { display: inline-block; border-radius: 10px; padding: 0 9px; font-size: 12.5px; font-weight: 600;
  white-space: nowrap; }
.holds { color: var(--good); background: var(--good-back); }
.broken { color: var(--bad); background: var(--bad-back); }
.open { color: var(--soft); background: var(--faint); }
.note { color: var(--soft); font-size: 13px; }
details { font-size: 13px; color: var(--soft); }
summary { cursor: pointer; }
code { font: 12.5px ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
ul.examples { margin: 4px 0; padding-left: 18px; }
.empty { color: var(--soft); padding: 36px 0; text-align: center; }
.worse { color: var(--bad); } .better { color: var(--good); }
footer { color: var(--soft); font-size: 13px; margin-top: 20px; }
svg { display: block; width: 100%; height: auto; max-width: 720px; margin: 0 auto; }
svg text { font: 13.5px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--soft); }
svg .tick { font-size: 13px; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; margin: 0 0 6px; padding: 0;
  font-size: 13.5px; color: var(--soft); }
.legend li { display: flex; align-items: center; gap: 6px; overflow-wrap: anywhere; }
.legend i { width: 11px; height: 11px; border-radius: 2px; flex: none; }
.legend [class^="line-"] { width: 22px; height: 0; border-radius: 0; border-top: 2px solid; }
.legend .line-delivered, .legend .line-one, .legend .line-one-recovered { border-color: var(--delivered); }
.legend .line-recovered { border-color: var(--recovered); }
.legend .line-two, .legend .line-two-recovered { border-color: var(--lost); }
.legend .line-one-recovered, .legend .line-two-recovered { border-top-style: dashed; }
.legend .line-one { border-top-width: 5px; opacity: 0.55; }
.grid { stroke: var(--edge); } .axis { stroke: var(--soft); stroke-opacity: 0.7; }
.mark { stroke: var(--soft); stroke-dasharray: 3 3; stroke-opacity: 0.8; } .mark-tip { fill: var(--soft); }
.span { fill: var(--late); fill-opacity: 0.16; } .span-name { font-weight: 600; }
.link { stroke: var(--delivered); stroke-opacity: 0.55; stroke-linecap: round; }
.link:hover { stroke-opacity: 1; }
.broker { fill: var(--card); stroke: var(--ink); stroke-width: 2.5; }
.ring { fill: none; stroke: var(--lost); stroke-width: 2.5; stroke-dasharray: 4 3; }
svg .name { fill: var(--ink); font-weight: 600; } svg .name.replaced, svg .loss { fill: var(--bad); }
.name, .load { paint-order: stroke; stroke: var(--card); stroke-width: 3px; stroke-linejoin: round; }
.steps { display: grid; grid-template-columns: repeat(auto-fit, minmax(96px, 1fr)); gap: 10px; margin: 4px 0 14px;
  padding: 0; list-style: none; }
.steps li { font-size: 13px; line-height: 1.35; color: var(--soft); border-left: 3px solid var(--replica);
  padding-left: 9px; }
.steps b { display: block; font-size: 15px; color: var(--ink); font-variant-numeric: tabular-nums; }
.hit { fill: var(--ink); fill-opacity: 0; } .hit:hover { fill-opacity: 0.09; }
.fill-delivered, .fill-one { fill: var(--delivered); background: var(--delivered); }
.fill-recovered { fill: var(--recovered); background: var(--recovered); }
.fill-replica { fill: var(--replica); background: var(--replica); }
.fill-late { fill: var(--late); background: var(--late); }
.fill-lost, .fill-two { fill: var(--lost); background: var(--lost); }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line-delivered, .line-one, .line-one-recovered { stroke: var(--delivered); }
.line-recovered { stroke: var(--recovered); }
.line-two, .line-two-recovered { stroke: var(--lost); }
.line-one-recovered, .line-two-recovered { stroke-dasharray: 6 4; }
.line-one { stroke-width: 4.5; stroke-opacity: 0.55; } .dot { stroke-width: 1; stroke-opacity: 1; }
@media (max-width: 560px) {
  main { padding: 18px 10px 32px; } .card { padding: 14px 12px; }
  svg text { font-size: 23px; } svg .tick { font-size: 22px; }
  .picture { overflow-x: auto; } .picture svg { min-width: 600px; } .picture svg text { font-size: 13.5px; }
  .stacks, .stacks tbody { display: block; } .stacks thead { display: none; }
  .stacks tr { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 2px 12px; padding: 8px 0;
    border-bottom: 1px solid var(--edge); }
  .stacks td { border: 0; padding: 0; text-align: left; white-space: normal; }
  .stacks td:first-child, .stacks .bar { grid-column: 1 / -1; width: auto; }
  .stacks td:first-child { font-weight: 600; }
  .stacks td[data-label]:not([data-label=""])::before { content: attr(data-label); display: block; color: var(--soft);
    font-size: 12.5px; }
}
.dot.line-one { fill: var(--delivered); } .dot.line-two { fill: var(--lost); }
"""
