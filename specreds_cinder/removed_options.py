# SPDX-License-Identifier: Apache-2.0
"""Options of earlier versions in the configuration of a service."""

from collections.abc import Iterable

from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def warn(conf: cfg.ConfigOpts, group: str, names: Iterable[str]) -> None:
    """Name the removed options that the files of a configuration still set, in one line.

    :param conf: the configuration, which was read
    :param names: the removed options of the group
    """
    if 'config_file' not in conf:
        # Nobody has read a file.
        return
    # A configuration of its own: the service's one must not accept these options.
    old = cfg.ConfigOpts()
    old.register_opts([cfg.StrOpt(name) for name in names], group)
    old([], default_config_files=conf.config_file, default_config_dirs=conf.config_dir)
    if still_set := [name for name in names if old[group][name] is not None]:
        LOG.warning('ignoring %s in group [%s] of the configuration: these options were removed, '
                    'as the release notes explain', ', '.join(still_set), group)
