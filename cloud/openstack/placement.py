# SPDX-License-Identifier: Apache-2.0
"""Placement's configuration and its tables."""

from collections.abc import Mapping

from cloud import commands
from cloud.openstack import accounts
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import layout


def conf(files: layout.Layout, settings: layout.Settings,
         passwords: Mapping[str, str]) -> private.Conf:
    """Everything in `placement.conf`."""
    return private.merged({
        'DEFAULT': {'debug': 'false', 'use_stderr': 'true'},
        'api': {'auth_strategy': 'keystone'},
        'placement_database': {'connection': database.url(settings, 'placement', passwords)},
        'oslo_concurrency': {'lock_path': files.state / 'placement' / 'lock'},
    }, accounts.sections(settings, passwords, 'placement'))


def prepare(files: layout.Layout) -> None:
    """Make or update the tables.

    :raises CloudError: `placement-manage` failed
    """
    (files.state / 'placement' / 'lock').mkdir(parents=True, exist_ok=True)
    commands.run([str(layout.BIN / 'placement-manage'), '--config-file',
                  str(files.placement_conf), 'db', 'sync'], timeout=180)
