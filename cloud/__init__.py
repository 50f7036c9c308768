# SPDX-License-Identifier: Apache-2.0
"""A real cluster on one machine, for the tests, the benchmarks and the demonstration."""
