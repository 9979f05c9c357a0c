// A Batch as bytes: what travels between processes and lies in stores.
//
//   magic "DBAT" | major, minor u16 | size of the rest of the header u32 | rows u64 |
//   fields u32, then each field of the spec | columns, raw, in field order | CRC-32C u32 of all
//   before it
//
// All numbers are little endian. The checksum finds accidents; it is no protection against a peer
// that means harm, so every size is checked against the bytes that are there before memory is
// taken. The values of columns are not checked: where one is used as an index, its user checks it.
//
// Ownership: an EncodedBatch keeps the block of its batch alive.
// Threads:   thread-safe.
#ifndef DING_WORKER_DATA_WIRE_H_
#define DING_WORKER_DATA_WIRE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"

namespace ding {

// A message in pieces, for a gathering write: header, columns where they lie, checksum. Move only,
// since pieces point into it.
class EncodedBatch {
 public:
  explicit EncodedBatch(Batch batch);
  EncodedBatch(EncodedBatch&&) = default;
  EncodedBatch& operator=(EncodedBatch&&) = default;

  absl::Span<const absl::string_view> pieces() const { return pieces_; }
  // The pieces as one string: a copy.
  std::string ToString() const;

 private:
  Batch batch_;
  std::unique_ptr<const std::string> header_;
  std::unique_ptr<const std::string> trailer_;
  std::vector<absl::string_view> pieces_;
};

// The batch in `bytes`, copied into a block of its own.
//   kDataLoss            truncated or corrupted
//   kInvalidArgument     whole, but not a batch that can be: a bad spec, sizes that contradict
//   kFailedPrecondition  of another major version
//   kResourceExhausted   no memory
absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes);

// The same into a block of `pool`; the layout must be that of the pool (kInvalidArgument names the
// first field that differs). The batch has the pool's spec.
absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes, BlockPool* pool);

}  // namespace ding

#endif  // DING_WORKER_DATA_WIRE_H_
