# SPDX-License-Identifier: Apache-2.0
"""The tests on other distributions: a root for each, in which README's own commands run.

Nothing here needs more than Python's standard library, so that it runs before ``./run setup``.
"""
