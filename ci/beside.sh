# shellcheck shell=bash disable=SC2034
# A stream on ranks, other programs that come beside it in its middle, and what the demonstration says of it. Sourced after lib.sh.
#
# The stream writes its answers to NAME.tsv, its messages to NAME.txt and its events to events-NAME; how far it is can be read from
# the length of what it has written, because the whole is known.

# Between two looks at how far a stream is, in seconds: columns of the chart are longer.
LOOK=0.2
# The others end by themselves after this time, in seconds, whatever becomes of this script: longer than any stream here takes.
LOAD_LIMIT=600

stream_pid="" load_pids=()

# end_all: ends what was started here and still runs.
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

# start_loads N CORES: starts N programs that compute check sums without a pause, on these cores (as of taskset) if any are named.
start_loads() {
  local n command=(timeout "$LOAD_LIMIT" sha256sum /dev/zero)
  [ -z "$2" ] || command=(taskset -c "$2" "${command[@]}")
  for ((n = 0; n < $1; n++)); do
    "${command[@]}" >/dev/null 2>&1 &
    load_pids+=($!)
  done
}

# watch_stream NAME PID WHOLE N: waits for the stream, which writes WHOLE bytes, and fails if it has failed. When a third is
# written, N others come to the core of the rank that runs the first stage by the file `mapping`. Sets stream_ms and beside_ms: what the stream
# took in all, and from when they had come. Writes NAME.samples, lines of milliseconds and bytes.
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

# cores_of NAME RANK: the cores that a rank may run on, from the table that rank 0 logs; nothing if they cannot be chosen.
cores_of() {
  local cores
  cores=$(awk -v rank="$2" '/ may run on / { table = 1; next } table && $1 == rank { print $3; exit }' "$1.txt")
  if [ -n "$cores" ] && taskset -c "$cores" true 2>/dev/null; then echo "$cores"; fi
}

# mappings_of NAME: the mappings that were in force while the stream ran, one a line.
mappings_of() { sed -n 's/.*"kind":"switch",.*"mapping":"\([^"]*\)".*/\1/p' "events-$1/attempts/1/rank-0.jsonl"; }

# first_rank MAPPING: the rank that runs the first stage.
first_rank() { sed 's/^[^@]*@\([0-9]*\).*/\1/' <<<"$1"; }

# chart QUERIES NAME...: queries a second of these streams over the same time, as bars.
chart() {
  local queries=$1 name
  shift
  for name in "$@"; do
    echo "stream $name $(cat "$name.came") $(tail -n 1 "$name.samples")"
    cat "$name.samples"
  done | awk -v queries="$queries" '
    # Bytes written up to a time, between two samples in proportion.
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

# changes NAME RANK: from what `armature explain` says of the stream (standard input), what was decided for a change and what was done
# then, and when the others came to the core of RANK.
changes() {
  local name=$1 rank=$2 elapsed came total
  came=$(cat "$name.came")
  total=$(tail -n 1 "$name.samples" | cut -d' ' -f1)
  # The clock of the events begins when the ranks have found each other.
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

# quality TRUTH ANSWERS: prints how often the right picture is found; sets found, the share among ten in per cent.
quality() {
  local first
  read -r first found < <(awk -F'\t' '
    NR == FNR { right[$1] = $2; queries++; next }
    right[$1] == $3 { among++; if ($2 == 1) first++ }
    END { printf "%d %d\n", 100 * first / queries, 100 * among / queries }' "$1" "$2")
  echo "the picture that a query was made of comes first in $first % and is among ten in $found % of the queries"
}

# figures QUERIES MS [OTHER_MS WHAT]: time and pace of a run, and how it stands to another.
figures() {
  local compared=""
  [ $# -lt 4 ] || compared=", $(ratio "$3" "$2") times as fast as $4"
  echo "    $(decimal "$2") s, $(($1 * 1000 / $2)) queries a second$compared"
}

# verdict KEPT_MS LIVE_MS CHANGES: what changing the mapping has gained from when the others came.
verdict() {
  local kept=$1 live=$2
  if [ "$kept" -eq 0 ] || [ "$live" -eq 0 ]; then
    echo "    The stream was over before the others could come, so nothing can be said of them."
    return
  fi
  echo "    beside the others it took $(decimal "$kept") s with the mapping kept, $(decimal "$live") s where armature could change it:" \
    "$(ratio "$kept" "$live") times as fast"
  # Less than a twentieth is noise in one run.
  if [ $((20 * kept)) -lt $((21 * live)) ]; then
    echo "    So nothing was gained this time, with $3 changes of mapping."
    [ "$RANKS" -le "$cores" ] || echo "    Where ranks share cores, the system moves them away from the others by itself, if it can."
  fi
}

# had_a_core COMMAND...: runs it with its messages in the file `messages`, and shows them if it fails. Sets took_ms, and core_share: for
# which part of that time, in per cent, it had a core to itself.
had_a_core() {
  local TIMEFORMAT='%R %U %S' times
  times=$({ time "$@" >messages 2>&1; } 2>&1) || { cat messages; return 1; }
  read -r took_ms core_share < <(awk '{ printf "%d %d\n", 1000 * $1, 100 * ($2 + $3) / ($1 + 1e-9) }' <<<"$times")
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# decimal MS: as seconds.
decimal() { awk -v ms="$1" 'BEGIN { printf "%.1f", ms / 1000 }'; }

# ratio A B: with two decimals.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / (b > 0 ? b : 1) }'; }

# usable_cores: cores that this process may use; two threads of one core are one.
usable_cores() {
  local cores may
  may=$(nproc)
  cores=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  echo $((cores > 0 && cores < may ? cores : may))
}
