# SPDX-License-Identifier: Apache-2.0
"""Options of the API: group ``[api]`` of ``specreds-engine.conf``."""

from oslo_config import cfg

GROUP = cfg.OptGroup('api', title="The engine's API")

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt('max_limit', default=1000, min=1, max=10000,
               help='How many recoveries or hosts one answer lists at most. Where there are more '
                    'the answer has a link to the next ones.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known. May be repeated."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)
