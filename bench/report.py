# SPDX-License-Identifier: Apache-2.0
"""The figures that have a bar, their bars, and how they are shown."""

from collections.abc import Mapping, Sequence
import dataclasses
import json
import pathlib

Figures = Mapping[str, str | float]


@dataclasses.dataclass(frozen=True)
class Bar:
    """A figure and the limits that it must meet.

    :param text: description of the figure
    :param at_most: its highest good value
    :param at_least: its lowest good value
    """

    key: str
    text: str
    at_most: float | None = None
    at_least: float | None = None

    def met(self, value: float) -> bool:
        """Return whether a value meets the bar."""
        return ((self.at_most is None or value <= self.at_most)
                and (self.at_least is None or value >= self.at_least))

    @property
    def limit(self) -> str:
        """The bar in words."""
        if self.at_most is not None:
            return f'≤ {self.at_most:g}'
        return f'≥ {self.at_least:,g}' if self.at_least is not None else '-'


BARS = (
    Bar('disk.first_touch_4k_qd1.super_over_rbd',
        'first-touch 4 KiB write latency, depth 1: super ÷ rbd', at_most=1.10),
    Bar('disk.first_touch_4k_qd16.super_over_rbd', '  depth 16', at_most=1.10),
    Bar('disk.first_touch_4k_qd1.super_over_writeback', '  ÷ rbd-writeback, depth 1'),
    Bar('disk.first_touch_4k_qd16.super_over_writeback', '  depth 16'),
    Bar('disk.first_touch_256mib.super_over_rbd', '  256 MiB of it, more than a cache has: ÷ rbd'),
    Bar('disk.first_touch_256mib.super_over_writeback', '  ÷ rbd-writeback'),
    Bar('disk.first_touch_4k_qd1_cold.super_over_rbd', '  all caches cold, depth 1: ÷ rbd'),
    Bar('disk.first_touch_4k_qd1_cold.super_over_writeback', '  ÷ rbd-writeback'),
    Bar('disk.first_touch_4k_qd1.uncached_over_rbd',
        '  without any write-back cache, depth 1'),
    Bar('disk.first_touch_4k_qd16.uncached_over_rbd', '  depth 16'),
    Bar('disk.first_touch_4k_qd1.clone_over_rbd', '  rbd-clone ÷ rbd, depth 1'),
    Bar('disk.first_touch_4k_qd16.clone_over_rbd', '  depth 16'),
    Bar('disk.fsync_8k.speculative_over_rbd',
        '8 KiB write + fsync IOPS, super while speculative ÷ rbd', at_least=1.5),
    Bar('disk.fsync_8k.promoted_over_rbd',
        '  super when durable (promoted, not merged) ÷ rbd', at_least=0.75),
    Bar('disk.fsync_8k.promoted_first_touch_over_rbd',
        '  the same, only places never written before', at_least=0.95),
    Bar('disk.replay_p100m.speculative_over_rbd',
        'P/100M trace replay time, super while speculative ÷ rbd', at_most=0.85),
    Bar('disk.replay_p100m.promoted_over_rbd', '  super when promoted ÷ rbd'),
    Bar('disk.replay_p100m.clone_over_rbd', '  rbd-clone ÷ rbd'),
    Bar('overwrites.writethrough_lost',
        "flushed overwrites that librbd's cache lost: policy of backups", at_most=0),
    Bar('overwrites.writeback_lost', '  writeback'),
    Bar('overwrites.writearound_lost', '  writearound, the default'),
    Bar('super.4tib_over_1gib', 'super latency, 4 TiB ÷ 1 GiB volume', at_most=1.2),
    Bar('super.latency_ms', 'super latency at 32 PGs (ms)', at_most=150),
    Bar('super.sixty_volumes_s', '60 volumes into superposition at once (s)', at_most=1),
    Bar('super.dead_osd_s', 'super from the death of an OSD (s)'),
    Bar('super.dead_osd_over_readable',
        '  the same ÷ until all objects of the volume can be read', at_most=1.1),
    Bar('super.cut_4096_pgs_s', 'cut of 4,096 PGs, simulated in fewer (s)', at_most=0.3),
    Bar('super.cut_4096_pgs_client_s', '  processor time of the client (s)', at_most=0.3),
    Bar('super.record_4096_pgs_ms', 'write and read of a record of 4,096 PGs (ms)', at_most=5),
    Bar('collapse.sweep_objects_per_s', 'sweep (objects/s)', at_least=100_000),
    # One core that does nothing else sweeps 100,000 objects a second.
    Bar('collapse.sweep_client_us', 'sweep, client (us/object)', at_most=10),
    # So that one core sweeps 64 TiB in 168 s.
    Bar('collapse.large_sweep_client_us', '  of a volume of 1 TiB', at_most=10),
    Bar('collapse.sixty_servers_pass_s',
        'sweep of 60 servers of 25,600 objects each, at once (s)', at_most=5),
    Bar('collapse.dead_sealed_s', 'seal 100 servers of a dead host at once (s)', at_most=1.0),
    Bar('collapse.dead_super_client_ms', '  super, client (ms/server)'),
    Bar('collapse.total_s',
        'collapse of 25,600 objects, all included; paxos_propose_interval 0.1, not 1 (s)',
        at_most=1.0),
    Bar('collapse.window_ms', '  window between first sweep and fence (ms)', at_most=100),
    Bar('merge.throughput_ratio', 'writer throughput during merge ÷ before'),
    Bar('merge.loss_s', 'throughput that a writer misses from promotion to plain RBD (s)',
        at_most=2),
    Bar('merge.under_8mib_per_s_s', 'promotion to one version, 100 MiB, 8 MiB/s written (s)',
        at_most=5),
    Bar('merge.under_50mib_per_s_s', '  50 MiB/s written (s)', at_most=8),
    Bar('merge.suspended_ms', '  suspension of the first writer (ms)', at_most=50),
    Bar('merge.neighbour_p99_ratio', "neighbour's p99 during ten merges ÷ before", at_most=1.5),
    Bar('cinder.super_ms', "super through Cinder's REST API (ms)", at_most=300),
    Bar('cinder.super_http_ms', '  of it HTTP'),
    Bar('cinder.super_rpc_ms', '  of it RPC'),
    Bar('cinder.super_storage_ms', '  of it storage'),
    Bar('cinder.collapse_ms', "collapse through Cinder's REST API (ms)"),
    Bar('cinder.collapse_1tib_over_10gib', '  of a thin volume of 1 TiB ÷ of 10 GiB',
        at_most=1.2),
    Bar('cinder.collapse_http_ms', '  of it HTTP'),
    Bar('cinder.collapse_rpc_ms', '  of it RPC'),
    Bar('cinder.collapse_storage_ms', '  of it storage'),
    Bar('cinder.sixty_volumes_s', '60 volumes of one host in one REST call (s)', at_most=2),
    Bar('nova.rpc_to_running_ms', 'start of a backup, from RPC to running domain (ms)',
        at_most=1000),
    Bar('nova.promote_to_first_packet_ms', 'promotion, from RPC to first packet (ms)',
        at_most=300),
    Bar('nova.primary_throughput_ratio',
        "primary's transactions while there is a backup ÷ before", at_least=0.95),
    Bar('nova.merge_throughput_ratio', "guest's transactions until its merge ends ÷ after",
        at_least=0.8),
    Bar('nova.two_talkers_s', 'both guests of one address answer, longest time (s)', at_most=3),
    Bar('nova.frames_leaked_from_box', 'frames that left the box before promotion', at_most=0),
    Bar('nova.backup_memory_mib', 'memory that a backup takes (MiB)'),
    Bar('failover.ordinary_s', 'an ordinary Debian dies, not served: SpecREDS (s)'),
    Bar('failover.ordinary_oracle_s', '  Oracle (s)'),
    Bar('failover.ordinary_fastest_s', '  fastest sound start (s)'),
    Bar('failover.ordinary_over_oracle', '  SpecREDS ÷ Oracle', at_most=1.15),
    Bar('failover.ordinary_over_fastest', '  SpecREDS ÷ fastest sound start'),
    Bar('failover.ordinary_blocking_s', '  longest wait of a user without a limit (s)'),
    Bar('failover.ordinary_blocking_over_oracle', '  the same: SpecREDS ÷ Oracle', at_most=1.15),
    Bar('failover.ordinary_blocking_over_fastest', '  the same: SpecREDS ÷ fastest sound start'),
    Bar('failover.ordinary.hold_s', '  of it until the first frame may decide (s)'),
    Bar('failover.ordinary_suspected_s', '  from the death until its host is suspected (s)'),
    Bar('failover.ordinary_frame_s', "  until its backup's first frame may decide (s)"),
    Bar('failover.ordinary_decided_s', '  until Cinder has decided (s)'),
    Bar('failover.ordinary_answered_s', '  until it answers a packet (s)'),
    Bar('failover.ordinary_early_share', '  share of deaths that the first frame has decided',
        at_least=1),
    Bar('failover.frame_to_open_s', '  first frame to open box (s)', at_most=0.5),
    Bar('failover.ordinary_overhead_s', '  all but the guest (s)'),
    Bar('failover.ordinary_lost', '  acknowledged transactions that are lost', at_most=0),
    Bar('failover.spec_over_oracle', 'not served after a death: SpecREDS ÷ Oracle',
        at_most=1.15),
    Bar('failover.spec_over_fastest', '  SpecREDS ÷ fastest sound start'),
    Bar('failover.spec_blocking_s', '  longest wait of a user without a limit (s)'),
    Bar('failover.spec_blocking_over_oracle', '  the same: SpecREDS ÷ Oracle', at_most=1.15),
    Bar('failover.spec_blocking_over_fastest', '  the same: SpecREDS ÷ fastest sound start'),
    Bar('failover.unseen_s', '  of it until nobody can see the primary (s)'),
    Bar('failover.reds60_over_spec', '  a small server: evacuation after 60 s ÷ SpecREDS',
        at_least=8),
    Bar('failover.overhead_s', '  all but the guest (s)', at_most=0.7),
    Bar('failover.lost', '  acknowledged transactions that are lost', at_most=0),
    Bar('failover.spec_s', '  SpecREDS (s)'),
    Bar('failover.oracle_s', '  Oracle (s)'),
    Bar('failover.fastest_s', '  fastest sound start (s)'),
    Bar('failover.short_s', '  a small server: SpecREDS (s)'),
    Bar('failover.reds60_s', '  a small server: evacuation after 60 s (s)'),
    Bar('failover.masakari_s', '  Masakari, notified at once (s)'),
    Bar('failover.masakari_over_spec', '  Masakari, notified at once ÷ SpecREDS', at_least=5),
    Bar('failover.masakari0_s', '  Masakari without its wait (s)'),
    Bar('failover.masakari0_over_spec', '  Masakari without its wait ÷ SpecREDS', at_least=1),
    Bar('failover.masakari_spec_over_spec', '  SpecREDS by Masakari ÷ SpecREDS', at_most=1.15),
    Bar('false_suspicion.errors', 'a host that is only suspected: errors of a client',
        at_most=0),
    Bar('false_suspicion.lost', '  transactions that are lost or wrong', at_most=0),
    Bar('false_suspicion.throughput_ratio', '  transactions while there is a backup ÷ before',
        at_least=0.95),
    Bar('faults.correct_ratio', 'recoveries that end right though something fails, share',
        at_least=1),
    Bar('faults.broker_outage_backups', 'backups started while the broker was gone', at_most=0),
    Bar('faults.database_stall_backups', '  while the database stood still', at_most=0),
    Bar('faults.database_stall_hidden_s', '  a living server without network (s)', at_most=1),
    Bar('faults.ceph_stall_backups', '  while Ceph stood still', at_most=0),
    Bar('faults.ceph_stall_hidden_s', '  a living server without network (s)', at_most=1),
    Bar('opinion.false_promotions',
        'idle guests of a host that is cut off, sentinel asked: guests replaced', at_most=0),
    Bar('opinion.silent.false_promotions', '  without a sentinel'),
    Bar('opinion.recoveries', '  recoveries with an answer'),
    Bar('opinion.answered_over_silent', '  until the end of the recovery: answer ÷ no answer',
        at_most=1),
    Bar('stall.robbed', 'a host stands still and goes on: primaries that lost with time left',
        at_most=0),
    Bar('stall.wrong', '  servers of which something is wrong, errors of clients included',
        at_most=0),
    Bar('stall.restarted', '  primaries that lost'),
    Bar('stall.timeout_restarted', '  the same with a timeout of 5 s'),
    Bar('wal.frame_over_ready',
        'a database with much WAL dies: decided at its first frame ÷ when it is ready'),
    Bar('wal.frame_s', '  at its first frame (s)'),
    Bar('wal.ready_s', '  when it is ready (s)'),
    Bar('wal.early_share', '  share of the former that the first frame has decided', at_least=1),
    Bar('wal.lost', '  acknowledged transactions that are lost', at_most=0),
    Bar('scale.sixty_servers_s',
        '60 servers of a stub host, stub services: until the last backup is to start (s)',
        at_most=3),
    Bar('hook.hostile_late_share',
        'hostile metadata that delay a heartbeat by 100 ms (share of 1,000 values)', at_most=0),
    Bar('scale.rack.last_started_s',
        '40 of 10,000 stub hosts × 100 servers, stub services: until the last backup is to '
        'start (s)', at_most=60),
    Bar('scale.rack.last_served_s', '  until the last server serves, ready after 5 s (s)',
        at_most=180),
    Bar('scale.rack.started_cpu_s',
        '  processor time of the engine until the last backup is to start (s)', at_most=60),
    Bar('scale.rack.threads', '  threads of the engine', at_most=64),
    Bar('scale.short_wait_p99_own_over_fifo',
        'one server in five is long: p99 wait of the short, own ÷ fifo', at_most=0.1),
    Bar('scale.takeover_s',
        'stub services and hosts: until another engine works on what a killed one has left (s)',
        at_most=1.0),
    Bar('scale.memory_mib', '  memory of the engine (MiB)',
        at_most=1024),
    Bar('scale.ten_thousand_hosts_cpu', '10,000 stub hosts in one engine: share of a core',
        at_most=0.5),
    Bar('scale.voices.cores', '10,000 sentinels by UDP in one engine: cores', at_most=0.3),
    Bar('dispatch.rack.short_wait_p99_own_over_fifo',
        '4,000 recoveries at once: p99 wait of the short, own ÷ fifo', at_most=0.1),
    Bar('dispatch.rack.makespan_own_over_cfcfs', '  until the last has ended, own ÷ cfcfs',
        at_most=1.05),
    Bar('simulate.failed', 'generated simulations that fail', at_most=0),
    Bar('simulate.seeds_per_s', '  simulations in a second'),
    Bar('scale.thousand_hosts_cpu', '1,000 stub hosts in one engine: share of a core',
        at_most=0.10),
)


def write(path: pathlib.Path, figures: Figures) -> None:
    """Write the figures as one flat JSON object."""
    path.write_text(json.dumps(dict(sorted(figures.items())), indent=1) + '\n')


def table(figures: Figures, prefixes: Sequence[str]) -> str:
    """Return a table of the figures beside their bars.

    :param prefixes: first words of the keys that were measured
    """
    rows: list[tuple[str, ...]] = [('figure', 'key', 'value', 'spread', 'bar', 'met?')]
    for bar in BARS:
        if bar.key.split('.')[0] in prefixes:
            rows.append(_row(bar, figures))
    return '\n'.join(_aligned(rows))


def missed(figures: Figures) -> list[str]:
    """Return the keys of the figures that were measured and do not meet their bar."""
    return [bar.key for bar in BARS
            if bar.key in figures and not bar.met(float(figures[bar.key]))]


def details(figures: Figures, prefix: str) -> str:
    """Return a table of all figures of a benchmark, with their spread."""
    hidden = ('.low', '.high', '.n')
    rows = [('key', 'median', 'spread')]
    rows += [(key, _number(value), _spread(figures, key)) for key, value in figures.items()
             if key.startswith(f'{prefix}.') and not key.endswith(hidden)]
    return '\n'.join(_aligned(rows))


def side_by_side(figures: Figures, columns: Mapping[str, str], parts: Sequence[str]) -> str:
    """Return a table of the seconds of parts, and their sums. What has no figures is left out.

    :param columns: headings by the prefixes of the figures' keys
    :param parts: names of the rows
    """
    there = {prefix: heading for prefix, heading in columns.items()
             if any(f'{prefix}{part}_s' in figures for part in parts)}
    rows = [('part (s)', *there.values())]
    rows += [(part, *(f'{float(figures[key]):.2f}' if (key := f'{prefix}{part}_s') in figures
                      else '' for prefix in there))
             for part in parts if any(f'{prefix}{part}_s' in figures for prefix in there)]
    sums = [sum(float(figures.get(f'{prefix}{part}_s', 0.0)) for part in parts)
            for prefix in there]
    rows.append(('together', *(f'{seconds:.2f}' for seconds in sums)))
    return '\n'.join(_aligned(rows))


def _row(bar: Bar, figures: Figures) -> tuple[str, ...]:
    if bar.key not in figures:
        return bar.text, bar.key, 'not measured', '', bar.limit, ''
    value = float(figures[bar.key])
    verdict = '' if bar.limit == '-' else 'yes' if bar.met(value) else 'NO'
    return (bar.text, bar.key, _number(value), _spread(figures, bar.key), bar.limit, verdict)


def _spread(figures: Figures, key: str) -> str:
    if f'{key}.n' not in figures:
        return ''
    return (f'{_number(figures[f"{key}.low"])}…{_number(figures[f"{key}.high"])} '
            f'n={figures[f"{key}.n"]}')


def _number(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}'


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ['  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in rows]
    return [lines[0], '  '.join('-' * width for width in widths), *lines[1:]]
