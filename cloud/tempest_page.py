# SPDX-License-Identifier: Apache-2.0
"""The results of Tempest's tests as a page of HTML, which needs nothing else."""

from collections.abc import Sequence
import html

from cloud import tempest_results as results

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.4 sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }}
table {{ border-collapse: collapse; margin-bottom: 2em; width: 100% }}
td, th {{ border-bottom: 1px solid #ccc; padding: .2em .6em; text-align: left;
         vertical-align: top }}
td.number {{ text-align: right }}
td:first-child {{ white-space: nowrap }}
pre {{ overflow-x: auto; white-space: pre-wrap }}
.passed {{ color: #060 }} .failed {{ color: #b00; font-weight: bold }} .skipped {{ color: #777 }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
_STATUSES = (results.FAILED, results.SKIPPED, results.PASSED)


def page(title: str, runs: Sequence[results.Run]) -> str:
    """Return the page: a table of all runs, and one of each, what failed first."""
    body = [_table(['', *(results.PASSED, results.FAILED, results.SKIPPED), 'seconds'],
                   [_summary(run) for run in runs])]
    for run in runs:
        ordered = sorted(run.results, key=lambda result: (
            _STATUSES.index(result.status), result.name))
        body += [f'<h2>{html.escape(run.title)}</h2>',
                 _table(['result', 'test'], [_row(result) for result in ordered])]
    return _PAGE.format(title=html.escape(title), body='\n'.join(body))


def _summary(run: results.Run) -> str:
    counts = ''.join(f'<td class="number {status}">{run.count(status)}</td>'
                     for status in (results.PASSED, results.FAILED, results.SKIPPED))
    return (f'<tr><td>{html.escape(run.title)}</td>{counts}'
            f'<td class="number">{run.seconds:.0f}</td></tr>')


def _row(result: results.Result) -> str:
    words = ''
    if result.words:
        words = (f'<details><summary>{html.escape(result.reason)}</summary>'
                 f'<pre>{html.escape(result.words)}</pre></details>')
    return (f'<tr><td class="{result.status}">{result.status}</td>'
            f'<td>{html.escape(result.name)}{words}</td></tr>')


def _table(headings: Sequence[str], rows: Sequence[str]) -> str:
    head = ''.join(f'<th>{heading}</th>' for heading in headings)
    return '\n'.join([f'<table>\n<tr>{head}</tr>', *rows, '</table>'])
