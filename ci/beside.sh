# shellcheck shell=bash disable=SC2034
# Functions of the demonstration: a pipeline that runs while competing programs start on a core of it, and the text that is printed about
# it. Sourced after lib.sh.
#
# The pipeline NAME writes its results to NAME.tsv, its messages to NAME.txt and its events to events-NAME. Its progress is the size of
# NAME.tsv relative to the known size of the complete results.

# Interval in seconds at which the progress is sampled. It is shorter than a column of the chart.
LOOK=0.2
# Time limit of the competing programs in seconds. It ends them even if this script was killed, and is longer than any pipeline here takes.
LOAD_LIMIT=600

stream_pid="" load_pids=()

# end_all: ends all processes that were started here and are still running.
end_all() {
  end_loads
  [ -z "$stream_pid" ] || { kill "$stream_pid" && wait "$stream_pid"; } 2>/dev/null || true
  stream_pid=""
}

end_loads() {
  local pid
  for pid in "${load_pids[@]}"; do { kill "$pid" && wait "$pid"; } 2>/dev/null || true; done
  load_pids=()
}

# start_loads N CORES: starts N competing programs that compute checksums without pause, on these cores (in the syntax of taskset) if CORES
# is not empty.
start_loads() {
  local n command=(timeout "$LOAD_LIMIT" sha256sum /dev/zero)
  [ -z "$2" ] || command=(taskset -c "$2" "${command[@]}")
  for ((n = 0; n < $1; n++)); do
    "${command[@]}" >/dev/null 2>&1 &
    load_pids+=($!)
  done
}

# watch_stream NAME PID WHOLE N: waits until the pipeline with process PID has written WHOLE bytes and ended, and fails if the pipeline
# fails. When a third of the bytes is written, starts N competing programs on the core of the rank that runs the first stage according to
# the file `mapping`. Sets stream_ms to the total time, and beside_ms to the time from the start of the competing programs. Writes lines of
# milliseconds and bytes to NAME.samples.
watch_stream() {
  local name=$1 whole=$3 loads=$4 began now bytes code=0 cores="" came=""
  stream_pid=$2
  began=$(milliseconds)
  : >"$name.samples"
  while kill -0 "$stream_pid" 2>/dev/null; do
    bytes=$(stat -c %s "$name.tsv")
    echo "$(($(milliseconds) - began)) $bytes" >>"$name.samples"
    if [ -z "$came" ] && [ "$loads" -gt 0 ] && [ $((3 * bytes)) -ge "$whole" ]; then
      cores=$(cores_of "$name" "$(first_rank "$(cat mapping)")")
      came=$(($(milliseconds) - began))
      start_loads "$loads" "$cores"
    fi
    [ ! -t 1 ] || printf '\r    %d %% ' $((100 * bytes / whole))
    sleep "$LOOK"
  done
  [ ! -t 1 ] || printf '\r          \r'
  wait "$stream_pid" || code=$?
  stream_pid=""
  end_loads
  stream_ms=$(($(milliseconds) - began))
  beside_ms=$((came > 0 ? stream_ms - came : 0))
  echo "$stream_ms $(stat -c %s "$name.tsv")" >>"$name.samples"
  echo "${came:-0}" >"$name.came"
  [ -z "$came" ] || echo "    the others came after $(decimal "$came") s${cores:+, to core $cores}"
  return "$code"
}

# cores_of NAME RANK: prints the cores on which a rank may run, from the table that rank 0 logs. Prints nothing if no process can be bound
# to them.
cores_of() {
  local cores
  cores=$(awk -v rank="$2" '/ may run on / { table = 1; next } table && $1 == rank { print $3; exit }' "$1.txt")
  if [ -n "$cores" ] && taskset -c "$cores" true 2>/dev/null; then echo "$cores"; fi
}

# mappings_of NAME: prints the mappings of the pipeline in the order in which they took effect, one per line.
mappings_of() { sed -n 's/.*"kind":"switch",.*"mapping":"\([^"]*\)".*/\1/p' "events-$1/attempts/1/rank-0.jsonl"; }

# first_rank MAPPING: prints the rank that runs the first stage.
first_rank() { sed 's/^[^@]*@\([0-9]*\).*/\1/' <<<"$1"; }

# chart QUERIES NAME...: draws the queries per second of these pipelines as bars over a common time axis.
chart() {
  local queries=$1 name
  shift
  for name in "$@"; do
    echo "stream $name $(cat "$name.came") $(tail -n 1 "$name.samples")"
    cat "$name.samples"
  done | awk -v queries="$queries" '
    # Returns the number of bytes written up to a time, interpolated between two samples.
    function written(s, t,   i) {
      for (i = 1; i < count[s]; i++) if (time[s, i + 1] >= t) break
      if (i >= count[s]) return bytes[s, count[s]]
      return bytes[s, i] + (bytes[s, i + 1] - bytes[s, i]) * (t - time[s, i]) / (time[s, i + 1] - time[s, i] + 1e-9)
    }
    function rate(s, from, to) {
      return to > from ? 1000 * queries * (written(s, to) - written(s, from)) / whole[s] / (to - from) : 0
    }
    $1 == "stream" {
      name[++streams] = $2; came[streams] = $3; total[streams] = $4; whole[streams] = $5
      if ($4 > longest) longest = $4
      next
    }
    { time[streams, ++count[streams]] = $1; bytes[streams, count[streams]] = $2 }
    END {
      columns = 60
      width = longest / columns
      if (width < 500) width = 500
      split("▁ ▂ ▃ ▄ ▅ ▆ ▇ █", bar, " ")
      for (s = 1; s <= streams; s++)
        for (c = 0; c * width < total[s]; c++) {
          height[s, c] = rate(s, c * width, (c + 1) * width < total[s] ? (c + 1) * width : total[s])
          if (height[s, c] > most) most = height[s, c]
        }
      for (s = 1; s <= streams; s++) {
        line = ""
        for (c = 0; c * width < total[s]; c++) {
          level = int(8 * height[s, c] / most + 0.999)
          line = line bar[level < 1 ? 1 : level]
        }
        printf "    %-5s %s\n", name[s], line
        if (came[s] > 0) {
          mark = sprintf("%" int(came[s] / width) "s^", "")
          printf "    %-5s %s the others come; before %.0f, after %.0f a second\n", "", mark, rate(s, 0, came[s]), \
            rate(s, came[s], total[s])
        }
      }
      printf "    a column is %.1f s, the highest is %.0f a second\n", width / 1000, most
    }'
}

# changes NAME RANK: filters the output of `armature explain` on standard input. Prints the decisions to change the mapping and their
# migrations, and the start of the competing programs on the core of RANK.
changes() {
  local name=$1 rank=$2 elapsed came total
  came=$(cat "$name.came")
  total=$(tail -n 1 "$name.samples" | cut -d' ' -f1)
  # The clock of the events starts when the ranks are connected. The difference of both total times converts times of this script.
  elapsed=$(awk '/^pipeline .* items in [0-9.]+ s, / { sub(/.* items in /, ""); printf "%d", 1000 * $1; exit }' "$name.txt")
  awk -v rank="$rank" -v came="$came" -v at="$(decimal $((came - total + elapsed)))" '
    function others() {
      if (came > 0 && !told) printf "%9.3f s          Others have come to where rank %d runs.\n", at, rank
      told = 1
    }
    /^ *[0-9.]+ s  rank / {
      shown = /The mapping is changed|migrated to rank/
      if (shown && $1 >= at + 0) others()
    }
    /^[^ ]/ { shown = 0 }
    shown { print }
    END { others() }'
}

# quality TRUTH ANSWERS: prints the percentage of queries whose right picture is the first answer, and is among ten answers. Sets found to
# the latter.
quality() {
  local first
  read -r first found < <(awk -F'\t' '
    NR == FNR { right[$1] = $2; queries++; next }
    right[$1] == $3 { among++; if ($2 == 1) first++ }
    END { printf "%d %d\n", 100 * first / queries, 100 * among / queries }' "$1" "$2")
  echo "the picture that a query was made of comes first in $first % and is among ten in $found % of the queries"
}

# figures QUERIES MS [OTHER_MS WHAT]: prints the time and the rate of a run, and its speed-up over another run.
figures() {
  local compared=""
  [ $# -lt 4 ] || compared=", $(ratio "$3" "$2") times as fast as $4"
  echo "    $(decimal "$2") s, $(($1 * 1000 / $2)) queries a second$compared"
}

# verdict KEPT_MS LIVE_MS CHANGES: prints the gain from changes of the mapping, for the time after the start of the competing programs.
verdict() {
  local kept=$1 live=$2
  if [ "$kept" -eq 0 ] || [ "$live" -eq 0 ]; then
    echo "    The stream was over before the others could come, so nothing can be said of them."
    return
  fi
  echo "    beside the others it took $(decimal "$kept") s with the mapping kept, $(decimal "$live") s where armature could change it:" \
    "$(ratio "$kept" "$live") times as fast"
  # A difference below a twentieth cannot be distinguished from noise in a single run.
  if [ $((20 * kept)) -lt $((21 * live)) ]; then
    echo "    So nothing was gained this time, with $3 changes of mapping."
    [ "$RANKS" -le "$cores" ] || echo "    Where ranks share cores, the system moves them away from the others by itself, if it can."
  fi
}

# had_a_core COMMAND...: runs the command with its output in the file `messages`, and prints the output if the command fails. Sets took_ms
# to the elapsed time, and core_share to the CPU time in per cent of the elapsed time.
had_a_core() {
  local TIMEFORMAT='%R %U %S' times
  times=$({ time "$@" >messages 2>&1; } 2>&1) || { cat messages; return 1; }
  read -r took_ms core_share < <(awk '{ printf "%d %d\n", 1000 * $1, 100 * ($2 + $3) / ($1 + 1e-9) }' <<<"$times")
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# decimal MS: prints milliseconds as seconds with one decimal.
decimal() { awk -v ms="$1" 'BEGIN { printf "%.1f", ms / 1000 }'; }

# ratio A B: prints A / B with two decimals.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / (b > 0 ? b : 1) }'; }

# usable_cores: prints the number of cores that this process may use. Two hardware threads of one core count once.
usable_cores() {
  local cores may
  may=$(nproc)
  cores=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  echo $((cores > 0 && cores < may ? cores : may))
}
