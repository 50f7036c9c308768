# SPDX-License-Identifier: Apache-2.0
"""OpenStack's services and hosts as processes that speak HTTP and AMQP."""
