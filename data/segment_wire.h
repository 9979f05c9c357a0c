// A SegmentBatch as bytes: a chunk of experience, as it lies in a store.
//
//   magic "DSEG" | major, minor u16 | sizes of the three parts u64 each | CRC-32C u32 of all before
//   it | segments | rows | final_obs
//
// Each part is a batch as of data/wire.h, with its own checksum; of the segments it has the columns
// stream, first_step, length (int64) and end (uint8).
//
// Rows without an observation (items) have nothing to be stored for and cannot be decoded.
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

// In pieces, for a gathering write: what lies in columns is not copied. Move only, since pieces
// point into it.
class EncodedSegments {
 public:
  // `data` is valid (ValidateSegments), and its steps are at least 0: a mistake of the caller ends
  // the program. Out of memory for the table of segments: so does that.
  explicit EncodedSegments(const SegmentBatch& data);
  EncodedSegments(EncodedSegments&&) = default;
  EncodedSegments& operator=(EncodedSegments&&) = default;

  absl::Span<const absl::string_view> pieces() const { return pieces_; }
  // The pieces as one string: a copy.
  std::string ToString() const;

 private:
  std::vector<EncodedBatch> parts_;
  std::unique_ptr<const std::string> header_;
  std::vector<absl::string_view> pieces_;
};

// The data in `bytes`, copied into blocks of its own. They are as ValidateSegments() wants them,
// and no step is below 0 or overflows.
//   kDataLoss            truncated or corrupted
//   kInvalidArgument     whole, but not data that can be
//   kFailedPrecondition  of another major version
//   kResourceExhausted   no memory
absl::StatusOr<SegmentBatch> DecodeSegments(absl::string_view bytes);

// The same into blocks of pools, whose layouts must be those of the data (kInvalidArgument names the
// first field that differs).
absl::StatusOr<SegmentBatch> DecodeSegments(absl::string_view bytes, BlockPool* rows,
                                            BlockPool* final_obs);

}  // namespace ding

#endif  // DING_WORKER_DATA_SEGMENT_WIRE_H_
