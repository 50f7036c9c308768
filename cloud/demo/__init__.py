# SPDX-License-Identifier: Apache-2.0
"""The demo of failovers on a real cloud: ``./run demo``.

The scenarios are in :mod:`cloud.demo.scenarios`, which the benchmark of failovers repeats.
"""
