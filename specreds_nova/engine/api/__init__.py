# SPDX-License-Identifier: Apache-2.0
"""The engine's REST API: what it knows of hosts and recoveries, and what an operator says.

A process of its own, of which there may be several; it shares nothing with the engines but their
database.
"""
