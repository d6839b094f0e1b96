"""Reads a trace with Perfetto's definition of the format, and prints the numbers of its elements as JSON, for report/tests/perfetto.rs.

Fails if the trace has a field that the definition does not contain, or a slice without an end."""

import json
import sys
from collections import Counter, defaultdict

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from google.protobuf.unknown_fields import UnknownFieldSet


def known(message):
    """Returns true if the definition contains all fields of the message and of nested messages."""
    if len(UnknownFieldSet(message)) > 0:
        return False
    for field, value in message.ListFields():
        if field.message_type is not None:
            values = value if hasattr(value, "__len__") and not hasattr(value, "ListFields") else [value]
            if not all(known(inner) for inner in values):
                return False
    return True


trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
counts, tracks, open_slices = Counter(), {}, defaultdict(list)
begun, ended, last = set(), set(), 0
# The trace processor sorts packets by time in the same way: packets with equal times keep their order.
for packet in sorted(trace.packet, key=lambda packet: packet.timestamp):
    assert known(packet), f"a field that the definition does not have: {packet}"
    assert packet.trusted_packet_sequence_id == 1, packet
    if packet.HasField("track_descriptor"):
        descriptor = packet.track_descriptor
        assert descriptor.uuid not in tracks, f"two tracks have the number {descriptor.uuid}"
        tracks[descriptor.uuid] = descriptor
        for kind in ("process", "thread", "counter"):
            counts[kind + "es" * (kind == "process") + "s" * (kind != "process")] += descriptor.HasField(kind)
        continue
    event = packet.track_event
    last = packet.timestamp
    assert event.track_uuid in tracks, f"there is no track {event.track_uuid}"
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        open_slices[event.track_uuid].append(event.name)
        counts["slices"] += 1
    elif event.type == TrackEvent.TYPE_SLICE_END:
        open_slices[event.track_uuid].pop()
    elif event.type == TrackEvent.TYPE_INSTANT:
        counts["instants"] += 1
        begun.update(event.flow_ids)
        ended.update(event.terminating_flow_ids)
    elif event.type == TrackEvent.TYPE_COUNTER:
        assert tracks[event.track_uuid].HasField("counter") and 0 <= event.double_counter_value <= 100.001, event
        counts["values"] += 1
    else:
        sys.exit(f"an event of a type that nobody wrote: {event}")
assert not any(open_slices.values()), f"slices do not end: {open_slices}"
counts["flows"] = len(begun & ended)
assert begun == ended, f"flows have one end: {begun ^ ended}"
print(json.dumps({**counts, "seconds": last / 1e9}))
