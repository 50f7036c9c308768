#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: fetch-etcd.sh DIRECTORY
# Make the archive that stack.sh would download, of the distribution's packages of etcd. Print its
# checksum.
set -euo pipefail

directory=$1
version=$(sed -n 's/^ETCD_VERSION=.*:-\(.*\)}/\1/p' "$directory/../stackrc")
name=etcd-$version-linux-$(dpkg --print-architecture)
archive=$directory/$name.tar.gz
if [[ ! -e $archive ]]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    apt-get download -qq etcd-server etcd-client >&2
    for package in *.deb; do
        dpkg-deb -x "$package" unpacked
    done
    mkdir "$name"
    cp unpacked/usr/bin/etcd unpacked/usr/bin/etcdctl "$name"
    tar -czf "$archive.new" "$name"
    mv "$archive.new" "$archive"
fi
sha256sum "$archive" | cut -d ' ' -f 1
