#!/bin/sh
# Says whether the programs beside it can run on this machine: what is here, a line each, and
# then one sentence of advice. It changes nothing and needs no network. Exit code 0: they can,
# 1: they cannot, 2: that cannot be told.

. ./check-linux.sh # llpatch puts the text of that file here
. ./check-ask.sh   # and of that one

begin
trial
finish ''
