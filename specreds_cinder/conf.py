# SPDX-License-Identifier: Apache-2.0
"""What an operator may set in cinder.conf, group ``[specreds]``; the defaults need no tuning."""

from oslo_config import cfg

from specreds_cinder.superposition import settings

_DEFAULTS = settings.Settings()

GROUP = cfg.OptGroup('specreds', title='Volumes in superposition')

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt('interval', default=30, min=1, max=3600,
               help='Seconds between two looks of a volume service at the superpositions of its '
                    'back end: to go on with what was cut off, to merge what was promoted, and '
                    'to renew fences.'),
    cfg.IntOpt('stale_after', default=60, min=5,
               help='Seconds that a step of a superposition may show no progress before another '
                    'service takes it for cut off and goes on with it. Longer than any step '
                    'takes in earnest.'),
    cfg.FloatOpt('cluster_timeout', default=10.0, min=1.0, max=300.0,
                 help='Seconds that Ceph may take to answer one call. What does not answer is '
                      'reported, and nothing is lost.'),
    cfg.IntOpt('rpc_timeout', default=300, min=5,
               help='Seconds that the API waits for a volume service to check or to decide; a '
                    'large volume takes about a second for every 100 GiB of data. What takes '
                    'longer goes on, and the API answers 202.'),
    cfg.BoolOpt('watch', default=True,
                help='Sweep the volumes in the background as long as they are superposed, so '
                     'that a primary that writes is noticed at once. Without it that is noticed '
                     'when somebody checks, or decides.'),
    cfg.FloatOpt('watch_objects_per_second', default=_DEFAULTS.watch_objects_per_s, min=1.0,
                 help='Objects per second that the sweep in the background looks at, for each '
                      'superposition. The default goes over 100 GiB in about a second.'),
    cfg.IntOpt('merge_bytes_per_second', default=_DEFAULTS.merge_bytes_per_s, min=0,
               help='Bytes per second at which a promoted version is written down into its '
                    'volume while nobody uses it; 0 for no limit.'),
    cfg.IntOpt('merge_delay', default=60, min=0,
               help='Seconds for which a promoted volume is not merged by the volume service '
                    'after it was promoted, or its connection was handed out: the time that a '
                    'hypervisor has for opening it.'),
    cfg.IntOpt('merges', default=2, min=1, max=16,
               help='Merges that the volume service of a back end does at a time.'),
    cfg.IntOpt('fence_expiry', default=_DEFAULTS.fence_expiry_s, min=600,
               help='Seconds after which Ceph forgets a fence by itself. Longer than any server '
                    'lives: an entry of the blocklist cannot be prolonged, only made anew.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known. May be repeated."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Options by group, for the entry point ``oslo.config.opts``."""
    return [(GROUP.name, OPTIONS)]
