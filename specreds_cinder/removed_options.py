# SPDX-License-Identifier: Apache-2.0
"""Options that a configuration sets and that do not exist, such as removed options."""

from collections.abc import Iterable
import pathlib

from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def warn(conf: cfg.ConfigOpts, group: str, options: Iterable[cfg.Opt]) -> None:
    """Name the options of a group that are set and do not exist, in one line.

    :param conf: the configuration, which was read
    :param options: all options of the group
    """
    if 'config_file' not in conf:
        # Nobody has read a file.
        return
    sections: dict[str, dict[str, list[str]]] = {}
    for path in (*conf.config_file, *(path for directory in conf.config_dir or ()
                                      for path in pathlib.Path(directory).glob('*.conf'))):
        cfg.ConfigParser(str(path), sections).parse()
    names = {name.replace('-', '_') for name in sections.get(group, ())}
    if unknown := sorted(names.difference(option.dest for option in options)):
        LOG.warning('ignoring %s in group [%s] of the configuration: there are no such options, '
                    'and the release notes say which ones were removed', ', '.join(unknown), group)
