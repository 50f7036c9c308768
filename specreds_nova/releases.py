# SPDX-License-Identifier: Apache-2.0
"""What has moved in Nova since the oldest release that is supported (2025.2)."""

try:
    from nova.scheduler.utils import resources_from_flavor_and_bfv
    from nova.thread_pool_factory import spawn
except ImportError:
    # Until 2026.1, the first one under another name.
    from nova.scheduler.utils import resources_for_limits as resources_from_flavor_and_bfv
    from nova.utils import spawn

__all__ = ('resources_from_flavor_and_bfv', 'spawn')
