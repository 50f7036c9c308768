# SPDX-License-Identifier: Apache-2.0
"""Recoveries: ``worker`` takes the ``steps`` in the order of its table, with a ``run``.

An engine can be killed anywhere, so each step resumes from whatever state it finds.
"""
