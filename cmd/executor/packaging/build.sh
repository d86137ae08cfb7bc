#!/usr/bin/env bash
# Builds .deb and .rpm into bin/packages, from the top of the repository. The same commit gives
# the same bytes. GO, GOARCH and VERSION can be set.
set -euo pipefail
GO=${GO:-go}
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.2
export ARCH=${GOARCH:-$($GO env GOHOSTARCH)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
umask 022
out=bin/packages root=bin/packages/root
rm -rf $out
mkdir -p $root/man

build() { CGO_ENABLED=0 GOOS=linux $GO build -trimpath -buildvcs=auto -ldflags '-s -w' -o "$1" ./cmd/executor; }
GOARCH=$ARCH build $root/executor
host=$root/executor
if [ "$ARCH" != "$($GO env GOHOSTARCH)" ]; then
	host=$out/host
	GOARCH=$($GO env GOHOSTARCH) build $host
fi

# Without a version of its own a build is before every release.
version=$($host version | awk '{ print $2 }')
case $version in
v[0-9]*) version=${version#v} ;;
*) version=0.0.0-$version ;;
esac
export VERSION=${VERSION:-$version}

# As a fresh user would have them.
run() { env -i PATH="$PATH" HOME=/nonexistent SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" $host "$@"; }
run man $root/man
gzip -9n $root/man/*
run completion bash > $root/executor.bash
run completion zsh > $root/_executor
run completion fish > $root/executor.fish
run config init --config $root/config.yaml > $out/config.log
find $root -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

for packager in deb rpm; do
	GOARCH='' GOOS='' $GO run $NFPM package -f cmd/executor/packaging/nfpm.yaml -p $packager -t $out
done
bash cmd/executor/packaging/check.sh $out
