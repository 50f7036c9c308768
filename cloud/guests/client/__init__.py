# SPDX-License-Identifier: Apache-2.0
"""What a tenant sees of a guest: a program that uses it all the time and writes down how it went.

Run as ``python -m cloud.guests.client``, in the tenants' network.
"""
