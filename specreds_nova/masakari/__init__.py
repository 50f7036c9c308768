# SPDX-License-Identifier: Apache-2.0
"""The task by which Masakari hands hosts to the engine."""
