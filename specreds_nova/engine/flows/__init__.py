# SPDX-License-Identifier: Apache-2.0
"""Flows of TaskFlow: one task per step, run in threads and kept in the database."""
