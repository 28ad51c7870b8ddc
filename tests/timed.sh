# timed.sh SECONDS PROGRAM [ARGUMENT...]: runs a test, ends it after SECONDS (0:
# never), and says how much time of a processor it took, for stages.sh: the
# last line, user and system.
timeout "$@"
status=$?
echo "# time of a processor, the shell's and the test's:"
times # must not be in a pipe, whose shell has had no children
exit $status
