# SPDX-License-Identifier: Apache-2.0
"""Nova's libvirt driver, which can also run backups of servers and adopt them on evacuation."""
