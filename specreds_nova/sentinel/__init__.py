# SPDX-License-Identifier: Apache-2.0
"""specreds-sentinel: ends servers on this host whose place a promoted backup has taken.

A fenced server can no longer write, but it can still talk: to its clients, under the address that
the promoted backup has now. The host that it runs on may be cut off from everything that could
tell it so, except storage. So a small daemon on each compute host looks at what the local domains
have open, at what Ceph says of it, and ends what is certainly overtaken. It needs libvirt and
Ceph, no service of OpenStack, and only ever reads from Ceph. ``decide`` has the argument why it
never ends the wrong one.
"""
