# SPDX-License-Identifier: Apache-2.0
"""The evaluation: what superposition costs and what it gains, on a Ceph of its own."""

import warnings

# oslo.messaging imports green threads unless told otherwise, and nothing here uses them.
warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
