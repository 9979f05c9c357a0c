// Cuts the segments of a collector into training samples of T rows, for policies that learn from
// sequences.
//
//     segments   a0 a1 a2 a3 a4 a5 a6 | b0 b1          T = 3
//
//     rest of a segment   samples                                           mask
//     kNullPadding        a0 a1 a2 | a3 a4 a5 | a6 a6 a6 | b0 b1 b1         0 for the copies
//     kLast               a0 a1 a2 | a3 a4 a5 | a4 a5 a6 | b0 b1 b1         0 for the copies
//     kDrop               a0 a1 a2 | a3 a4 a5                               1
//
// A sample has rows of one segment only, so no episode ends inside of it. The rest of a segment is
// what remains after its last sample of T rows, also where the collect ended within an episode.
//
// The samples [N * T] are sequences (Batch::AsSequences()) with all columns of the rows, and column
// "mask" (data/sample_columns.h). Each sample is a segment of the result; the segment of a padded
// sample includes the padding. DI-engine pads with zeros instead; copies have the advantage that
// they stay within the bounds of every space.
//
// Ownership: owns pools of blocks; the result shares its blocks with nobody.
// Threads:   thread-compatible.
//
// Example:
//   SequenceSamples samples(/*length=*/16, LastSample::kNullPadding);
//   DING_ASSIGN_OR_RETURN(const SegmentBatch cut, samples.Cut(collected));
#ifndef DING_WORKER_DATA_SEQUENCE_SAMPLES_H_
#define DING_WORKER_DATA_SEQUENCE_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

// What happens to the rest of a segment.
enum class LastSample : uint8_t {
  kNullPadding = 0,  // a sample that is filled up with copies of its last row
  kLast = 1,         // a sample of the segment's last T rows; if it has fewer, as kNullPadding
  kDrop = 2,         // nothing
};

class SequenceSamples {
 public:
  // `length` is T, from 1 to 2^20; Cut() refuses others.
  SequenceSamples(int64_t length, LastSample last) : length_(length), last_(last) {}

  int64_t length() const { return length_; }

  // Returns the samples, in the order of the segments; there may be none. Reuses the memory of
  // earlier results if it is large enough, except for the list of segments.
  //   kInvalidArgument    the segments do not fit the rows, or the rows have a column "mask"
  //   kResourceExhausted  there is not enough memory
  absl::StatusOr<SegmentBatch> Cut(const SegmentBatch& data);

 private:
  void AddSamples(const SegmentBatch& data, size_t segment, std::vector<Segment>* samples);
  void AddSample(const SegmentBatch& data, size_t segment, int64_t first, int64_t rows,
                 std::vector<Segment>* samples);
  absl::Status Resolve(const SegmentBatch& data);
  absl::StatusOr<Batch> GatherSamples(const Batch& rows);
  absl::StatusOr<Batch> GatherFinalObs();

  const int64_t length_;
  const LastSample last_;
  SpecPtr resolved_;  // the spec of the rows that the pools belong to
  std::optional<BlockPool> rows_pool_;
  std::optional<BlockPool> final_obs_pool_;

  // Working space, kept between calls.
  std::vector<int64_t> source_rows_;  // [N * T]
  std::vector<uint8_t> mask_;         // [N * T]
  std::vector<RowPlace> final_obs_;   // [N]
  std::vector<const std::byte*> row_columns_;
  std::vector<const std::byte*> final_obs_columns_;
};

}  // namespace ding

#endif  // DING_WORKER_DATA_SEQUENCE_SAMPLES_H_
