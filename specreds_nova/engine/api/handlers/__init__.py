# SPDX-License-Identifier: Apache-2.0
"""The handlers of the routes: functions from a call to a status and a body."""
