/** The style of the sandbox's own pages, light and dark. */
export const PAGE_STYLE = `
:root {
  color-scheme: light dark;
  --line: light-dark(#d9dee5, #333b46);
  --soft: light-dark(#f4f6f8, #1b2027);
  --text: light-dark(#1d2530, #e4e8ee);
  --dim: light-dark(#5b6675, #98a3b3);
  --accent: light-dark(#0b5cad, #6cb2ff);
  --good: light-dark(#17693a, #6fcf97);
  --bad: light-dark(#a32020, #ff8a80);
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body {
  margin: 0 auto; max-width: 76rem; padding: 1.25rem 1.5rem 3rem;
  font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: light-dark(#fff, #12161b);
}
header { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: baseline; }
h1 { font-size: 1.3rem; margin: 0; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
h3 { font-size: .95rem; margin: 1.2rem 0 .3rem; }
a { color: var(--accent); }
nav { display: flex; gap: 1rem; margin-left: auto; }
.dim { color: var(--dim); }
.good { color: var(--good); }
.bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--dim); font-size: .85rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
code, .code { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
input, select, button {
  font: inherit; color: inherit; background: var(--soft);
  border: 1px solid var(--line); border-radius: 6px; padding: .35rem .6rem;
}
button { cursor: pointer; }
button.link { border: 0; background: none; padding: 0; color: var(--accent); text-align: left; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
form { display: flex; flex-wrap: wrap; gap: .5rem; margin: .8rem 0; }
form input[type=search], form input[type=password] { flex: 1 1 16rem; }
.numbers { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; padding: 0; list-style: none; }
.numbers li { background: var(--soft); border: 1px solid var(--line); border-radius: 8px; padding: .5rem .9rem; min-width: 9rem; }
.numbers b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.columns { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 2rem; }
.columns > div { overflow-x: auto; }
@media (max-width: 60rem) { .columns { grid-template-columns: minmax(0, 1fr); } }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; margin: 0; }
dt { color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; }
section.operation { border: 1px solid var(--line); border-radius: 8px; padding: .2rem 1rem .8rem; margin: .8rem 0; }
.method { display: inline-block; min-width: 4.2rem; font-weight: 700; color: var(--accent); }
`;
