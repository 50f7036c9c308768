# SPDX-License-Identifier: Apache-2.0
"""The REST API of the engines: hosts, recoveries, and the words of operators.

It runs in processes of its own, which share only the database with the engines.
"""
