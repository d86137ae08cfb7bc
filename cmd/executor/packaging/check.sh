#!/usr/bin/env bash
# Looks into the packages in a directory: everything is there, nothing is anybody's but root's,
# and nothing can be written by others.
set -euo pipefail
deb=$(ls "$1"/*.deb) rpm=$(ls "$1"/*.rpm)
fail() { echo "packages: $*"; exit 1; }

if command -v dpkg-deb > /dev/null; then
	list=$(dpkg-deb -c "$deb")
	for path in /usr/bin/executor /usr/lib/systemd/system/executor.service /usr/lib/systemd/system/executor@.service \
		/usr/lib/systemd/user/executor.service /usr/share/man/man1/executor.1.gz /usr/share/man/man1/executor-run.1.gz \
		/usr/share/bash-completion/completions/executor /usr/share/zsh/vendor-completions/_executor \
		/usr/share/fish/vendor_completions.d/executor.fish /usr/share/doc/executor/examples/config.yaml /etc/executor/; do
		grep -q " \.$path\$" <<< "$list" || fail "$path is not in $deb"
	done
	others=$(grep -v ' root/root ' <<< "$list" || true)
	[ -z "$others" ] || fail "not root's in $deb: $others"
	writable=$(grep -E '^.{5}w|^.{8}w' <<< "$list" || true)
	[ -z "$writable" ] || fail "others can write in $deb: $writable"
	closed=$(grep '^d' <<< "$list" | grep -v '^drwxr-xr-x' || true)
	[ -z "$closed" ] || fail "directories of another mode in $deb: $closed"
	grep -q '^-rwxr-xr-x .* \./usr/bin/executor$' <<< "$list" || fail "the program in $deb has another mode"
	dpkg-deb -f "$deb" Version | grep -q '^[0-9]' || fail "the version of $deb"
fi
# The lead of a package of RPM.
[ "$(head -c 4 "$rpm" | od -An -tx1 | tr -d ' \n')" = edabeedb ] || fail "$rpm is none"
if command -v rpm > /dev/null; then
	rpm -qpl "$rpm" | grep -q '^/usr/bin/executor$' || fail "the program is not in $rpm"
fi
size=$(stat -c %s "$1/root/executor")
[ "$size" -le $((20 << 20)) ] || fail "the program has $size bytes, more than 20 MiB"
echo "packages: $deb and $rpm are as they should be; the program has $size bytes"
