# SPDX-License-Identifier: Apache-2.0
"""The options of simulated engines, and the settings of their recoveries."""

import dataclasses
from typing import Any

from oslo_config import cfg

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine.recovery import settings


class Options:
    """Options as plain attributes, because each look-up in a ConfigOpts is slow."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def options(**values: Any) -> Any:
    """Return the options of ``[engine]`` and the settings of recoveries, in one place.

    :param values: those that are not the defaults
    """
    conf = cfg.ConfigOpts()
    engine_conf.register(conf)
    conf([], default_config_files=[])
    constants = dataclasses.asdict(settings.Settings())
    for name in values.keys() - constants.keys():
        conf.set_override(name, values[name], 'engine')
    return Options({**{option.name.replace('-', '_'): conf.engine[option.dest]
                       for option in engine_conf.OPTIONS},
                    **constants, **{name: values[name] for name in values.keys() & constants}})
