# SPDX-License-Identifier: Apache-2.0
"""Options of the API: group ``[api]`` of ``specreds-engine.conf``."""

from oslo_config import cfg

GROUP = cfg.OptGroup('api', title="The engine's API")

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt('max_limit', default=1000, min=1, max=10000,
               help='Largest number of recoveries or hosts in one answer. An answer that leaves '
                    'some out has a link to the next ones.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options. May be repeated."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)
