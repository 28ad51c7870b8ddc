# timed.sh SECONDS PROGRAM [ARGUMENT...]: runs a test, ends it after SECONDS (0:
# never), and prints the processor time that it took, for tests/times.sh: user
# and system in the last line.
timeout "$@"
status=$?
echo "# processor time of the shell and of the test:"
times # not in a pipe: its shell would have no children
exit $status
