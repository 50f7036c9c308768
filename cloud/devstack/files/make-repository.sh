#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: make-repository.sh REPOSITORY PACKAGE VERSION
# Make a bare repository of a release in the package index, with one commit and one tag, where the
# repository of its developers cannot be reached.
set -euo pipefail

repository=$1 package=$2 version=$3
venv=/opt/sdists/venv
if [[ ! -x $venv/bin/wheel ]]; then
    python3 -m venv "$venv"
    # What builds the metadata of OpenStack's packages, which pip asks for.
    "$venv/bin/pip" install -q 'pbr<8' 'setuptools>=77' wheel
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/pip" download -q --no-deps --no-build-isolation --no-binary :all: -d "$work" \
    "$package==$version"
tar -C "$work" --no-same-owner -xf "$work"/*.tar.gz
tree=$(dirname "$work"/*/setup.cfg)
rm -rf "$tree"/*.egg-info
git=(git -C "$tree" -c user.name=devstack -c user.email=devstack@localhost)
"${git[@]}" init -q -b master
"${git[@]}" add -Af .
"${git[@]}" commit -qm "$version"
"${git[@]}" tag "$version"
rm -rf "$repository.new"
git clone -q --bare "$tree" "$repository.new"
mv -T "$repository.new" "$repository"
