# SPDX-License-Identifier: Apache-2.0
"""The options of simulated engines."""

from typing import Any

from oslo_config import cfg

from specreds_nova.engine import conf as engine_conf


class Options:
    """Group ``[engine]`` as plain attributes, because each look-up in a ConfigOpts is slow."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def options(**values: Any) -> Any:
    """Return the options of ``[engine]``: the given values, or their defaults."""
    conf = cfg.ConfigOpts()
    engine_conf.register(conf)
    conf([], default_config_files=[])
    for name, value in values.items():
        conf.set_override(name, value, 'engine')
    return Options({option.name.replace('-', '_'): conf.engine[option.dest]
                    for option in engine_conf.OPTIONS})
