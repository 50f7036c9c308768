# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file with the figures in it."""

import base64
from collections.abc import Iterable, Mapping, Sequence
import html
import pathlib
from typing import Any

from bench import plots
from bench import report
from bench.paper import disk
from bench.paper import formula
from bench.paper import peers

_STYLE = """\
body { font: 15px/1.5 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em }
img { max-width: 100% } table { border-collapse: collapse; margin: 1em 0 }
td, th { border: 1px solid #ccc; padding: .2em .6em; text-align: left; vertical-align: top }
td.n { text-align: right } th { background: #f3f3f3 } .missing { color: #a33 }
"""
_ABOUT = (
    'The evaluation of “Speculative Recovery: Cheap, Highly Available Fault Tolerance with '
    'Disaggregated Storage” (N. Li, A. Kalaba, M. J. Freedman, W. Lloyd, A. Levy; USENIX ATC '
    '2022), done again with stock Ceph, QEMU and OpenStack. Axes and series are the paper’s. All '
    'of it ran on one machine, so what counts are ratios.')
# What each figure shows, and in what it differs from the paper's.
_SECTIONS: Mapping[str, tuple[str, str]] = {
    'figure-4-64kib': ('Figure 4 a, b: copy on write', (
        'Each write is the first one to its object, so that an RBD clone copies the object each '
        'time. super is a qcow2 overlay here, in write-back while it is speculative, and copies '
        'nothing; the paper’s copied the object inside the OSD.')),
    'figure-4-4mib': ('Figure 4 a, b, with the objects of a volume of Cinder', (
        'The same with objects of 4 MiB, RBD’s default; the paper has only 64 KiB.')),
    'figure-4-percentiles': ('Figure 4 c, d: latencies of a recovery', (
        'From the same replays as Figure 5. Requests are sent as fast as they are answered, 16 in '
        'flight (the paper: 64, at the speed at which they were recorded).')),
    'figure-5': ('Figure 5: recovery by trace', (
        'The traces of the paper’s artifact that were at hand (--traces).')),
    'figure-6': ('Figure 6: end to end', (
        'The paper adds up timeouts and recoveries; here hosts are killed and clients watch, and '
        'the sums are beside it. REDS does the same to a host that only stands still (IV) as to '
        'one that is dead; the others are measured on a host that stands still until its backups '
        'have started, and two seconds more. “SpecREDS (rbd-clone)” is measured as an evacuation '
        'onto clones, the death being known at once. SpecREDS includes all that its engine '
        'takes.')),
    'peers': ('A peer: Masakari', (
        'The same death, recovered by Masakari’s own engine: by its defaults, and with its wait '
        'as short as it can be. Masakari is notified at the moment of the death, and the host is '
        'forced down in Nova and fenced in Ceph at once: no monitor of Masakari is faster. From '
        './run bench failover --peer masakari --json FILE, or the demo with --peer, by --from.')),
    'figure-7': ('Figure 7: throughput after failover', (
        'The volumes of all three were plain disks before. SpecREDS is merged while the database '
        'works; a clone stays one.')),
    'falsepositives': ('Section 5.5: false positives', (
        'The paper’s traces are not public: this is a sample that a model makes, calibrated to '
        'the share that the paper reports for a timeout of 10 s. For a trace of one’s own: '
        './run bench falsepositives --help.')),
}
_WORDS = {'rbd': 'rbd', 'super': 'super', 'clone': 'rbd-clone'}


def write(path: pathlib.Path, figures: Mapping[str, Any], drawn: Mapping[str, pathlib.Path],
          verdicts: str) -> None:
    """Write the report.

    :param drawn: the figures that there are, by their names
    :param verdicts: the table of false positives
    """
    parts = [f'<h1>SpecREDS on stock Ceph and OpenStack</h1><p>{html.escape(_ABOUT)}</p>']
    parts += _failed(figures)
    for name, (title, text) in _SECTIONS.items():
        parts.append(f'<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>')
        if name in drawn:
            image = base64.b64encode(drawn[name].read_bytes()).decode()
            parts.append(f'<img alt="{html.escape(title)}" src="data:image/png;base64,{image}">')
        else:
            parts.append('<p class="missing">Not measured.</p>')
        if name == 'falsepositives':
            parts.append(f'<pre>{html.escape(verdicts)}</pre>')
        elif name == 'figure-5':
            parts += _recoveries(figures)
        elif name == 'figure-6':
            parts += _accidents(figures)
        elif name == 'peers' and (bars := formula.beside_peers(figures)):
            parts.append(_table(('measured (s)', *formula.BOTH),
                                [[series, *values] for series, values in bars.items()]))
    parts += _peers(figures)
    parts += _facts(figures)
    path.write_text('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
                    f'<title>SpecREDS: the evaluation</title><style>{_STYLE}</style></head>'
                    f'<body>{"".join(parts)}</body></html>\n')


def _table(head: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    lines = ['<tr>' + ''.join(f'<th>{html.escape(cell)}</th>' for cell in head) + '</tr>']
    for row in rows:
        cells = ''.join(
            f'<td>{html.escape(cell)}</td>' if isinstance(cell, str) else
            f'<td class="n">{"–" if cell is None else plots.number_text(cell)}</td>'
            for cell in row)
        lines.append(f'<tr>{cells}</tr>')
    return f'<table>{"".join(lines)}</table>'


def _failed(figures: Mapping[str, Any]) -> list[str]:
    return [f'<p class="missing">Not measured: {html.escape(key.removeprefix("paper.failed."))}: '
            f'{html.escape(str(value))}</p>'
            for key, value in sorted(figures.items()) if key.startswith('paper.failed.')]


def _recoveries(figures: Mapping[str, Any]) -> list[str]:
    rows = []
    for short, (_, title) in disk.RECORDINGS.items():
        values = [figures.get(f'paper.fig5.{short}.{kind}_s') for kind in _WORDS]
        if values[0]:
            rows.append([title, *values, *(value and value / values[0] for value in values[1:])])
    return [_table(('replay (s)', *_WORDS.values(), 'super ÷ rbd', 'rbd-clone ÷ rbd'),
                   rows)] if rows else []


def _accidents(figures: Mapping[str, Any]) -> list[str]:
    parts = []
    for title, bars in (('measured (s)', formula.measured(figures)),
                        ('formula, recoveries end to end (s)', _formula(
                            formula.recoveries(figures))),
                        ('formula, recoveries replayed (s)', _formula(
                            formula.replayed(figures)))):
        if bars:
            parts.append(_table((title, *formula.GROUPS),
                                [[series, *values] for series, values in bars.items()]))
    lost = [value for key, value in figures.items()
            if key.startswith('paper.accident.') and key.endswith('.lost')]
    if lost:
        parts.append(f'<p>Acknowledged transactions that were lost in {len(lost)} accidents: '
                     f'{sum(lost):g}.</p>')
    return parts


def _formula(recoveries: tuple[formula.Recovery, formula.Recovery] | None
             ) -> dict[str, list[float]]:
    return formula.bars(*recoveries) if recoveries else {}


def _peers(figures: Mapping[str, Any]) -> list[str]:
    ours = peers.ours(figures)
    rows: list[list[str | float | None]] = []
    for peer in (*peers.PEERS, *((ours,) if ours else ())):
        rows.append([peer.name, 'all', peer.least, peer.mean, peer.most, peer.wrong])
        rows += [['', wait.what, wait.least, wait.mean, wait.most, wait.source]
                 for wait in peer.waits]
    return ['<h2>What others do by default</h2><p>From a host’s death until its servers are being '
            'started elsewhere, by default settings.</p>',
            _table(('system', 'what it waits for', 'least (s)', 'mean (s)', 'most (s)',
                    'where that stands; if it was wrong'), rows)]


def _facts(figures: Mapping[str, Any]) -> list[str]:
    rows = [[key.partition('.')[2], value if isinstance(value, str) else float(value)]
            for key, value in sorted(figures.items())
            if key.startswith(('environment.', 'paper.cost.'))]
    missed = [f'{bar.text} ({bar.key})' for bar in report.BARS
              if bar.key in figures and not bar.met(float(figures[bar.key]))]
    words = f'<p>Bars that are missed: {html.escape("; ".join(missed))}</p>' if missed else ''
    return ['<h2>The machine, and what each part took</h2>', _table(('what', ''), rows), words]
