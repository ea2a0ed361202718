#!/bin/sh
# Installs MySQL's own server for "make test-mysql". It is a mysqld with its libraries, in a folder of the user's cache.
# The packages are from Debian's unstable release, because no stable release has them. The script does not change the
# system, starts nothing, and needs no root. It takes a moment if the server is there; -f downloads it again.
#
# On a system without apt, or with its own mysqld, set STOA_MYSQLD to the path of that mysqld. The script then does
# nothing.
set -eu

[ -z "${STOA_MYSQLD-}" ] || exit 0
into="${XDG_CACHE_HOME:-$HOME/.cache}/stoa-mysql"
[ "${1-}" = -f ] || [ ! -x "$into/mysqld" ] || exit 0
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	echo "This system has no apt-get: install MySQL in its own way, and name its mysqld in STOA_MYSQLD." >&2
	exit 1
fi

# The mirror that this system already uses.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' 'Label: Debian' | head -n 1)
if [ -z "$mirror" ]; then
	echo "No Debian mirror among this system's sources (or its lists are not there: apt-get update). Install MySQL in another way, and name its mysqld in STOA_MYSQLD." >&2
	exit 1
fi

mkdir -p "$(dirname "$into")"
tmp=$(mktemp -d "$into.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$tmp/apt/sources" "$tmp/apt/lists/partial" "$tmp/apt/archives/partial" "$tmp/stoa-mysql/root"
: >"$tmp/apt/status" # like a system without packages, so that all libraries are downloaded
cat >"$tmp/apt/sources/unstable.sources" <<EOF
Types: deb
URIs: $mirror
Suites: unstable
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
apt() {
	apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$tmp/apt/sources" -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$tmp/apt" -o Dir::State::status="$tmp/apt/status" -o Dir::State::lists="$tmp/apt/lists" -o Dir::Cache="$tmp/apt" \
		-o APT::Sandbox::User="" -o Acquire::Languages=none "$@"
}
apt update
apt -y --no-install-recommends --download-only install mysql-server-core

root="$tmp/stoa-mysql/root"
for package in "$tmp"/apt/archives/*.deb; do
	dpkg-deb -x "$package" "$root"
done
# The server may need a newer C library than the system has. That library has its own loader.
loader=$(cd "$root" && ls usr/lib*/ld-linux-*.so.* usr/lib/*/ld-linux-*.so.* 2>/dev/null | head -n 1)
libraries=$(cd "$root" && dirname usr/lib/*/libstdc++.so.6)
cat >"$tmp/stoa-mysql/mysqld" <<EOF
#!/bin/sh
root=\$(dirname "\$0")/root
exec "\$root/$loader" --argv0 "\$root/usr/sbin/mysqld" --library-path "\$root/$libraries" "\$root/usr/sbin/mysqld" "\$@"
EOF
chmod 755 "$tmp/stoa-mysql/mysqld"
"$tmp/stoa-mysql/mysqld" --no-defaults --version
rm -rf "$into"
mv "$tmp/stoa-mysql" "$into"
