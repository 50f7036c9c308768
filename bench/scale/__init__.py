# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the engine with many servers and hosts."""
