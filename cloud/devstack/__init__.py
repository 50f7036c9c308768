# SPDX-License-Identifier: Apache-2.0
"""A DevStack with this project's plug-in, in a container on this machine.

Nothing here needs more than Python's standard library, so that it runs before ``./run setup``.
"""
