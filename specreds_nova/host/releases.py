# SPDX-License-Identifier: Apache-2.0
"""Names that have moved in Nova since 2025.2, the oldest supported release."""

try:
    from nova.scheduler.utils import resources_from_flavor_and_bfv
    from nova.thread_pool_factory import spawn
except ImportError:
    # Until 2026.1, the first one has another name.
    from nova.scheduler.utils import resources_for_limits as resources_from_flavor_and_bfv
    from nova.utils import spawn

__all__ = ('resources_from_flavor_and_bfv', 'spawn')
