# timed.sh SECONDS PROGRAM [ARGUMENT...]: runs a test and ends it after SECONDS
# (0: no limit). The last line of its output is the test's processor time, user
# and system, for tests/times.sh.
timeout "$@"
status=$?
echo "# processor time of the shell and of the test:"
times # not in a pipe: its shell would have no children
exit $status
