# times.sh FOLDER: prints the time of each test of a build folder, the longest
# first, from the logs of the last `make check`. A line is SECONDS TEST: seconds
# of processor time, user and system, and the test's name without .sh.
# tests/slow.txt is made from this.
cd "$1" || exit
find tests bench -name '*.log' | while read -r log; do
    tail -n 5 "$log" | awk -F '[ms ]+' -v name="${log%.log}" '
        /^[0-9]+m[0-9.]+s [0-9]+m[0-9.]+s$/ {
            seconds = ($1 + $3) * 60 + $2 + $4
        }
        END { if (seconds != "") printf "%.1f %s\n", seconds, name }'
done | sort -rn
