# shellcheck shell=bash disable=SC2034
# Runs a stream while other programs load a core, and prints charts and figures for the demonstration. Sourced after lib.sh.
#
# The stream writes its answers to NAME.tsv, its messages to NAME.txt and its events to events-NAME. Its progress is the part of the
# known output size that it has written.

# Interval in seconds at which the progress of a stream is recorded. A column of the chart covers a longer time.
SAMPLE_INTERVAL=0.2
# Time in seconds after which a program that loads a core ends. It is longer than any stream, and matters only if this script is killed.
LOAD_LIMIT=600

stream_pid="" load_pids=()

# end_all: ends the stream and the programs that load a core.
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

# start_loads N CORES: starts N programs that compute checksums without a pause. CORES is a list for taskset; empty means any core.
start_loads() {
  local n command=(timeout "$LOAD_LIMIT" sha256sum /dev/zero)
  [ -z "$2" ] || command=(taskset -c "$2" "${command[@]}")
  for ((n = 0; n < $1; n++)); do
    "${command[@]}" >/dev/null 2>&1 &
    load_pids+=($!)
  done
}

# watch_stream NAME PID WHOLE N: waits for the end of the stream with process number PID, which writes WHOLE bytes, and fails if the stream
# fails. When a third of the bytes are written, starts N programs on the core of the rank that runs the first stage of the mapping in the
# file `mapping`. Sets stream_ms, the time of the whole stream, and loaded_ms, the time from the start of the load to the end. Writes
# NAME.samples, lines of milliseconds and bytes.
watch_stream() {
  local name=$1 whole=$3 loads=$4 began now bytes code=0 cores="" load_start=""
  stream_pid=$2
  began=$(milliseconds)
  : >"$name.samples"
  while kill -0 "$stream_pid" 2>/dev/null; do
    bytes=$(stat -c %s "$name.tsv")
    echo "$(($(milliseconds) - began)) $bytes" >>"$name.samples"
    if [ -z "$load_start" ] && [ "$loads" -gt 0 ] && [ $((3 * bytes)) -ge "$whole" ]; then
      cores=$(cores_of "$name" "$(first_rank "$(cat mapping)")")
      load_start=$(($(milliseconds) - began))
      start_loads "$loads" "$cores"
    fi
    [ ! -t 1 ] || printf '\r    %d %% ' $((100 * bytes / whole))
    sleep "$SAMPLE_INTERVAL"
  done
  [ ! -t 1 ] || printf '\r          \r'
  wait "$stream_pid" || code=$?
  stream_pid=""
  end_loads
  stream_ms=$(($(milliseconds) - began))
  loaded_ms=$((load_start > 0 ? stream_ms - load_start : 0))
  echo "$stream_ms $(stat -c %s "$name.tsv")" >>"$name.samples"
  echo "${load_start:-0}" >"$name.load_start"
  [ -z "$load_start" ] || echo "    the load started after $(decimal "$load_start") s${cores:+ on core $cores}"
  return "$code"
}

# cores_of NAME RANK: prints the cores of a rank, from the table that rank 0 logs; nothing if taskset cannot use them.
cores_of() {
  local cores
  cores=$(awk -v rank="$2" '/ may run on / { table = 1; next } table && $1 == rank { print $3; exit }' "$1.txt")
  if [ -n "$cores" ] && taskset -c "$cores" true 2>/dev/null; then echo "$cores"; fi
}

# mappings_of NAME: prints the mappings of the stream in the order in which they took effect, one per line.
mappings_of() { sed -n 's/.*"kind":"switch",.*"mapping":"\([^"]*\)".*/\1/p' "events-$1/attempts/1/rank-0.jsonl"; }

# first_rank MAPPING: prints the rank that runs the first stage.
first_rank() { sed 's/^[^@]*@\([0-9]*\).*/\1/' <<<"$1"; }

# chart QUERIES NAME...: prints the queries per second of several streams on one time axis, as bars.
chart() {
  local queries=$1 name
  shift
  for name in "$@"; do
    echo "stream $name $(cat "$name.load_start") $(tail -n 1 "$name.samples")"
    cat "$name.samples"
  done | awk -v queries="$queries" '
    # Bytes written up to a time, interpolated between two samples.
    function written(s, t,   i) {
      for (i = 1; i < count[s]; i++) if (time[s, i + 1] >= t) break
      if (i >= count[s]) return bytes[s, count[s]]
      return bytes[s, i] + (bytes[s, i + 1] - bytes[s, i]) * (t - time[s, i]) / (time[s, i + 1] - time[s, i] + 1e-9)
    }
    function rate(s, from, to) {
      return to > from ? 1000 * queries * (written(s, to) - written(s, from)) / whole[s] / (to - from) : 0
    }
    $1 == "stream" {
      name[++streams] = $2; load_start[streams] = $3; total[streams] = $4; whole[streams] = $5
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
        if (load_start[s] > 0) {
          mark = sprintf("%" int(load_start[s] / width) "s^", "")
          printf "    %-5s %s the load starts; %.0f per second before, %.0f after\n", "", mark, rate(s, 0, load_start[s]), \
            rate(s, load_start[s], total[s])
        }
      }
      printf "    one column is %.1f s, the highest is %.0f per second\n", width / 1000, most
    }'
}

# changes NAME RANK: filters the output of `armature explain` (standard input) for changes of the mapping and migrations, and inserts the
# start of the load on the core of RANK.
changes() {
  local name=$1 rank=$2 elapsed load_start total
  load_start=$(cat "$name.load_start")
  total=$(tail -n 1 "$name.samples" | cut -d' ' -f1)
  # Times of events count from the moment when all ranks have started.
  elapsed=$(awk '/^pipeline .* items in [0-9.]+ s, / { sub(/.* items in /, ""); printf "%d", 1000 * $1; exit }' "$name.txt")
  awk -v rank="$rank" -v load_start="$load_start" -v at="$(decimal $((load_start - total + elapsed)))" '
    function load() {
      if (load_start > 0 && !shown_load) printf "%9.3f s          Other programs start on the core of rank %d.\n", at, rank
      shown_load = 1
    }
    /^ *[0-9.]+ s  rank / {
      shown = /The mapping is changed|migrated to rank/
      if (shown && $1 >= at + 0) load()
    }
    /^[^ ]/ { shown = 0 }
    shown { print }
    END { load() }'
}

# quality TRUTH ANSWERS: prints for how many queries the right picture is found. Sets found, the per cent of queries that have it among their
# ten answers.
quality() {
  local first
  read -r first found < <(awk -F'\t' '
    NR == FNR { right[$1] = $2; queries++; next }
    right[$1] == $3 { among++; if ($2 == 1) first++ }
    END { printf "%d %d\n", 100 * first / queries, 100 * among / queries }' "$1" "$2")
  echo "the right picture is the first answer in $first % and among the first ten in $found % of the queries"
}

# figures QUERIES MS [OTHER_MS WHAT]: prints time and rate of a run, and its speed relative to another run.
figures() {
  local compared=""
  [ $# -lt 4 ] || compared=", $(ratio "$3" "$2") times as fast as $4"
  echo "    $(decimal "$2") s, $(($1 * 1000 / $2)) queries per second$compared"
}

# verdict KEPT_MS LIVE_MS CHANGES: compares the times of the loaded part of the stream with a fixed mapping (KEPT_MS) and with a mapping that
# armature could change (LIVE_MS), and prints their ratio.
verdict() {
  local kept=$1 live=$2
  if [ "$kept" -eq 0 ] || [ "$live" -eq 0 ]; then
    echo "    The stream ended before the load could start, so that there is nothing to compare."
    return
  fi
  echo "    under load the fixed mapping took $(decimal "$kept") s, and the mapping that armature could change $(decimal "$live") s:" \
    "$(ratio "$kept" "$live") times as fast"
  # A difference below a twentieth cannot be distinguished from noise in a single run.
  if [ $((20 * kept)) -lt $((21 * live)) ]; then
    echo "    Nothing was gained this time; the number of changes of the mapping was $3."
    [ "$RANKS" -le "$cores" ] || echo "    If ranks share cores, the operating system itself moves them to less loaded cores."
  fi
}

# had_a_core COMMAND...: runs a command with its output in the file `messages`, which is printed if the command fails. Sets took_ms, and
# core_share, the processor time of the command in per cent of took_ms.
had_a_core() {
  local TIMEFORMAT='%R %U %S' times
  times=$({ time "$@" >messages 2>&1; } 2>&1) || { cat messages; return 1; }
  read -r took_ms core_share < <(awk '{ printf "%d %d\n", 1000 * $1, 100 * ($2 + $3) / ($1 + 1e-9) }' <<<"$times")
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# decimal MS: prints milliseconds as seconds.
decimal() { awk -v ms="$1" 'BEGIN { printf "%.1f", ms / 1000 }'; }

# ratio A B: prints A / B with two decimals.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / (b > 0 ? b : 1) }'; }

# usable_cores: prints the number of cores that this process may use. Two hardware threads of a core count once.
usable_cores() {
  local cores may
  may=$(nproc)
  cores=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  echo $((cores > 0 && cores < may ? cores : may))
}
