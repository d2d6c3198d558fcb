#!/bin/bash
# Runs the script that lies beside the name it was called by. Tests link to this file and write only the
# script, because a program that is open for writing anywhere cannot be started.
exec /bin/bash "$0.body"
