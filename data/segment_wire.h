// Encodes a SegmentBatch as bytes, and decodes it: a chunk of experience, as a store holds it.
//
//   magic "DSEG" | major, minor u16 | sizes of the three parts u64 each | segments | rows |
//   final_obs
//
// Each part is a batch as data/wire.h encodes it, without a checksum: the store has one for the
// whole value. The batch of the segments has the columns stream, first_step, length (int64) and end
// (uint8).
//
// Rows without an observation (items) are not meant to be stored, and cannot be decoded.
//
// Ownership: EncodedSegments keeps the blocks of its data alive.
// Threads:   thread-safe.
//
// Example:
//   const EncodedSegments encoded(data);
//   DING_RETURN_IF_ERROR(store->Put(ChunkKey(chunk), encoded.pieces()));
//   ...
//   DING_RETURN_IF_ERROR(store->Get(ChunkKey(chunk), &bytes));
//   DING_ASSIGN_OR_RETURN(const SegmentBatch data, DecodeSegments(bytes));
#ifndef DING_WORKER_DATA_SEGMENT_WIRE_H_
#define DING_WORKER_DATA_SEGMENT_WIRE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"

namespace ding {

// The encoded data in pieces, for a write that gathers them: columns are not copied. The object can
// be moved, but not copied, because the pieces point into it.
class EncodedSegments {
 public:
  // `data` must be valid (ValidateSegments()), with steps of at least 0. Other data, and a lack of
  // memory for the table of segments, end the program.
  explicit EncodedSegments(const SegmentBatch& data);
  EncodedSegments(EncodedSegments&&) = default;
  EncodedSegments& operator=(EncodedSegments&&) = default;

  absl::Span<const absl::string_view> pieces() const { return pieces_; }
  // Returns a copy of the pieces as one string.
  std::string ToString() const;

 private:
  std::vector<EncodedBatch> parts_;
  std::unique_ptr<const std::string> header_;
  std::vector<absl::string_view> pieces_;
};

// Returns the data in `bytes`, copied into blocks of their own. They pass ValidateSegments(), and
// no step is below 0 or overflows. Other bytes than those that were encoded may go unnoticed:
// Store::Get() finds damage.
//   kDataLoss            the bytes are truncated, or no segments
//   kInvalidArgument     the data are not valid
//   kFailedPrecondition  another major version wrote the bytes
//   kResourceExhausted   there is not enough memory
absl::StatusOr<SegmentBatch> DecodeSegments(absl::string_view bytes);

// Does the same with blocks of pools, whose layouts must be those of the data. kInvalidArgument
// names the first field that differs.
absl::StatusOr<SegmentBatch> DecodeSegments(absl::string_view bytes, BlockPool* rows,
                                            BlockPool* final_obs);

}  // namespace ding

#endif  // DING_WORKER_DATA_SEGMENT_WIRE_H_
