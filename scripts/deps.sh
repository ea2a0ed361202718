#!/bin/sh
# Installs the packages that "make test" needs, except Go, make, git and apt. They are a C compiler for the race
# detector, a real redis-server, a real MariaDB and Chromium. Others are promtool for the alerts, curl for the commands
# of the README, and nginx, HAProxy and Caddy for deploy/proxy. Chromium is its headless shell if possible, because a
# story then takes less than half the time. The script starts no service. It is fast if all packages are installed.
set -eu

has() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ]; }

missing=
has gcc || missing="$missing gcc"
[ -e /usr/include/stdlib.h ] || [ "$(uname)" != Linux ] || missing="$missing libc6-dev"
has redis-server || missing="$missing redis-server"
if ! has mariadbd || ! has mariadb-install-db; then missing="$missing mariadb-server"; fi
has chromium-headless-shell || has chromium || missing="$missing chromium-headless-shell"
has promtool || missing="$missing prometheus" # the package contains promtool
has curl || missing="$missing curl"
has nginx || missing="$missing nginx-light"
has haproxy || missing="$missing haproxy"
has caddy || missing="$missing caddy"
[ -n "$missing" ] || exit 0

if ! has apt-get; then
	echo "The tests need these, by their Debian names:$missing." >&2
	echo "This system has no apt-get: install them in its own way, so that gcc, redis-server, mariadbd, mariadb-install-db, chromium, promtool, curl, nginx, haproxy and caddy are in PATH." >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	if ! has sudo; then
		echo "The tests need these packages:$missing. Become root, or have root run: apt-get install --no-install-recommends$missing" >&2
		exit 1
	fi
	echo "Installing$missing through sudo."
	exec sudo -- "$0"
fi

# Packages run this file before they start a service; exit code 101 forbids it. An existing policy is restored
# afterwards.
policy=/usr/sbin/policy-rc.d
restore() {
	rm -f "$policy"
	[ ! -e "$policy.before-stoa" ] || mv "$policy.before-stoa" "$policy"
}
trap restore EXIT
trap 'exit 130' INT TERM HUP
[ ! -e "$policy" ] || [ -e "$policy.before-stoa" ] || mv "$policy" "$policy.before-stoa"
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
apt-get -q update
available=
for package in $missing; do
	# Older releases have no headless shell. Ubuntu has Chromium only as a snap; the package of that name in its archive is
	# no browser.
	if [ "$package" = chromium-headless-shell ]; then
		for package in chromium-headless-shell chromium; do
			if apt-cache policy "$package" | grep -q 'Candidate: [0-9]'; then
				available="$available $package"
				break
			fi
		done
		continue
	fi
	available="$available $package"
done
# shellcheck disable=SC2086 # a list of words
[ -z "$available" ] || apt-get -q -y --no-install-recommends install $available
if ! has chromium-headless-shell && ! has chromium; then
	echo "This release has no package with a Chromium browser. Install one in another way, so that chromium is in PATH." >&2
	exit 1
fi
