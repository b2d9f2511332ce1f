#!/bin/sh
# The browser tests drive Chromium. It is the one thing that only a system package manager can install.
ls tests/browser/test_*.py >/dev/null 2>&1 || exit 0
command -v chromium >/dev/null && command -v chromedriver >/dev/null && exit 0
packages="chromium chromium-driver"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "set-up: installing $packages with apt-get, for the browser tests" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages; } >/dev/null && exit 0
fi
echo "set-up: the browser tests will be skipped. They need Chromium and its driver; Debian: apt-get install $packages" >&2
