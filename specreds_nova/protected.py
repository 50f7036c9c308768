# SPDX-License-Identifier: Apache-2.0
"""Which servers are protected, by their metadata: one rule for hosts and engine."""

from collections.abc import Mapping

from oslo_utils import strutils

# The first one that a server has counts. HA_Enabled is what Masakari's users set.
METADATA_KEYS = ('specreds:protect', 'HA_Enabled')


def by_metadata(metadata: Mapping[str, str], default: bool) -> bool:
    """Tell whether a server is protected.

    :param default: whether those are that do not say
    """
    for key in METADATA_KEYS:
        if key in metadata:
            return bool(strutils.bool_from_string(metadata[key], default=False))
    return default
