# SPDX-License-Identifier: Apache-2.0
"""A real cluster on one machine, for the tests, the benchmarks and the demonstration."""

import warnings

# oslo.messaging imports green threads unless told otherwise, and nothing here uses them.
warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
