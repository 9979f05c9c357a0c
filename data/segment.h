// The output of collectors: segments, which are runs of consecutive rows of streams.
//
// A stream is the endless sequence of rows of one env of one worker; `step` numbers its rows across
// episodes. A segment is a run of consecutive rows of one stream within one episode:
//
//     rows       [ s0 s0 s0 | s1 s1 | s2 ]          one Batch; the rows of a segment are
//                                                   contiguous, oldest first
//     final_obs  [ after s0 , after s1 , after s2 ] the observation that follows each segment's
//                                                   last row
//
// A buffer links a segment to the previous one of its stream when the steps are consecutive, so
// each observation is stored once: the successor of a row is the next row of its stream, or
// final_obs where the stream is cut or the episode ends.
//
// Terminated and truncated are distinct: an episode that a time limit cut off would have continued,
// so the value of final_obs is part of its returns; the bootstrap value of a terminated episode is
// 0.
//
// Ownership: a value that shares its blocks. Threads: do not change a value after you passed it on.
#ifndef DING_WORKER_DATA_SEGMENT_H_
#define DING_WORKER_DATA_SEGMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/batch.h"

namespace ding {

// Files and messages contain these values: never renumber them.
enum class SegmentEnd : uint8_t {
  kCut = 0,         // the episode continues with the stream's next segment
  kTerminated = 1,  // the episode ended in a terminal state: the bootstrap value is 0
  kTruncated = 2,   // the episode was cut off (time limit): the bootstrap value is V(final_obs)
};

struct Segment {
  int64_t stream = 0;
  int64_t first_step = 0;  // step of row `begin` in the stream
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

// Checks that the segments cover the rows in order without gap or overlap, and that final_obs has
// one row per segment with the first fields of the rows. kInvalidArgument names the first problem.
absl::Status ValidateSegments(const SegmentBatch& data);

}  // namespace ding

#endif  // DING_WORKER_DATA_SEGMENT_H_
