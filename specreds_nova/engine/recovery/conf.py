# SPDX-License-Identifier: Apache-2.0
"""Options of recoveries in group ``[engine]``; the defaults need no tuning."""

from oslo_config import cfg

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt('slots', default=100, min=1,
               help='Set this when Nova, Neutron or Cinder can take more or less work at once. '
                    'Recoveries that race in this engine at a time, for each 100 healthy hosts. '
                    'Any smaller number of hosts counts as 100. Recoveries whose server serves '
                    'again, or can have no backup, do not count.'),
    cfg.FloatOpt('evacuate_after', default=60.0, min=0.0,
                 help='Set this when hosts that fall silent for longer may come back. Seconds for '
                      'which a host has to be suspected before a server that can have no backup '
                      'is fenced and evacuated.'),
    cfg.BoolOpt('evacuate_unfenced', default=False,
                help='Set this when something else fences hosts that fail. Also evacuate servers '
                     'whose volumes cannot be fenced, such as volumes of other drivers. Without '
                     'another fence such a server runs twice if its host lives, and its data are '
                     'lost.'),
]
