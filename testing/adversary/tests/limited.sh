#!/bin/sh
# Runs $PROGRAM with the arguments given, with no more than $DESCRIPTORS open files.
ulimit -n "$DESCRIPTORS" && exec "$PROGRAM" "$@"
