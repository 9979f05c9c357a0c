// What collectors produce: runs of consecutive rows of streams.
//
// A stream is the endless sequence of rows of one env of one worker; its rows are numbered by
// `step`, which goes on across episodes. A segment is a run of consecutive rows of one stream,
// within one episode:
//
//     rows       [ s0 s0 s0 | s1 s1 | s2 ]          one Batch; the rows of a segment are
//                                                   contiguous, oldest first
//     final_obs  [ after s0 , after s1 , after s2 ] the observation that follows each segment's
//                                                   last row
//
// A buffer links a segment to the one before it when (stream, step) goes on, so an observation is
// stored once: the successor of a row is the next row of its stream, or final_obs where the stream
// is cut or the episode ends.
//
// Terminated and truncated are never mixed up: an episode that a time limit cut off goes on in
// principle, and the value of final_obs belongs into its returns; after a terminated one there is
// nothing.
//
// Ownership: a value; shares its blocks.   Threads: immutable by convention once handed over.
#ifndef DING_WORKER_DATA_SEGMENT_H_
#define DING_WORKER_DATA_SEGMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/batch.h"

namespace ding {

// The values stand in files and on the wire: never renumber.
enum class SegmentEnd : uint8_t {
  kCut = 0,         // the episode goes on; the stream's next rows follow in a later segment
  kTerminated = 1,  // the episode is over: nothing follows, the bootstrap value is 0
  kTruncated = 2,   // the episode was cut off (time limit): final_obs has a value, no row follows
};

struct Segment {
  int64_t stream = 0;
  int64_t first_step = 0;  // of row `begin` within the stream
  int64_t begin = 0;       // first row in SegmentBatch::rows
  int64_t length = 0;      // at least 1
  SegmentEnd end = SegmentEnd::kCut;
};

struct SegmentBatch {
  Batch rows;  // [N, ...]: observation fields first (as in the env's spec), then action, reward,
               // and what the policy and the collector add
  Batch final_obs;  // [segments.size(), ...]: the observation fields only
  std::vector<Segment> segments;

  int64_t size() const { return rows.rows(); }
};

// OK if the segments cover the rows in order without gap or overlap, final_obs has one row each,
// and its fields are the first of the rows' fields. Else InvalidArgument that names the first thing
// that is wrong.
absl::Status ValidateSegments(const SegmentBatch& data);

}  // namespace ding

#endif  // DING_WORKER_DATA_SEGMENT_H_
