# SPDX-License-Identifier: Apache-2.0
"""The rule by which metadata protects servers, for hosts and engine."""

from collections.abc import Mapping

from oslo_utils import strutils

# The first key that a server has counts. Masakari's users set HA_Enabled.
METADATA_KEYS = ('specreds:protect', 'HA_Enabled')


def by_metadata(metadata: Mapping[str, str], default: bool) -> bool:
    """Return whether a server is protected.

    :param default: the result for metadata without any of the keys
    """
    for key in METADATA_KEYS:
        if key in metadata:
            return bool(strutils.bool_from_string(metadata[key], default=False))
    return default
