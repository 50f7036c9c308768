# SPDX-License-Identifier: Apache-2.0
"""The compute half of SpecREDS: backups of servers whose host is suspected of having failed.

``virt`` is Nova's libvirt driver, extended; ``sentinel`` is a daemon beside it on every host.
"""
