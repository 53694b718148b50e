"""The frame of an HTML report: readable by day and by night, on wide and narrow windows, and without network."""

import html

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --line: #d8dce2; --soft: #5b6470; --tint: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6ea; --paper: #15171a; --line: #363b43; --soft: #9aa3af; --tint: #1e2126; }
}
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.25; margin: 2.2em 0 0.6em; }
h1 { margin-top: 0; }
a { color: LinkText; }
code { background: var(--tint); padding: 0.1em 0.3em; border-radius: 3px; font-size: 0.9em; }
pre { background: var(--tint); padding: 0.8rem 1rem; overflow-x: auto; }
pre code { padding: 0; }
.table { overflow-x: auto; margin: 1.5rem 0 0.5rem; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.4rem; }
th, td { padding: 0.3rem 0.8rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--soft); }
tbody tr:hover { background: var(--tint); }
.number { text-align: right; }
.note, figcaption { color: var(--soft); font-size: 0.9rem; margin: 0.4rem 0 1.5rem; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; background: #fff; border-radius: 4px; }
@media print { .table { overflow: visible; } }
"""


def page(title: str, body: str) -> str:
    """``body`` is HTML, ``title`` is text."""
    safe = html.escape(title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{safe}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{safe}</h1>
{body}
</body>
</html>
"""
