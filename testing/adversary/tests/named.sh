#!/bin/sh
# Runs $PROGRAM with the arguments given, where /etc/resolv.conf is $NAMES. Nobody else sees that.
[ "$(id -u)" = 0 ] || user="--user --map-root-user"
# shellcheck disable=SC2086
exec unshare --mount $user -- sh -c 'mount --bind "$NAMES" /etc/resolv.conf && exec "$PROGRAM" "$@"' sh "$@"
