#!/bin/sh
# Writes the table of operators at the end of docs/onnx.md, from the program
# `tenon` of a build: docs/onnx_table.sh build/tools/tenon
set -eu
page=$(dirname "$0")/onnx.md
sed '/^| operator /,$d' "$page" >"$page.new"
"$1" onnx ops >>"$page.new"
mv "$page.new" "$page"
