// Encodes a Batch, or a small state, as bytes, and decodes it: the form in which they travel
// between processes and are stored.
//
//   magic "DBAT" | major, minor u16 | size of the rest of the header u32 | rows u64 |
//   fields u32, then each field of the spec | columns, raw, in field order | CRC-32C u32 of all
//   before it, if the batch has a checksum of its own
//
// All numbers are little endian. The checksum detects accidental damage; it does not protect
// against a malicious peer. Therefore every size is compared with the number of bytes before memory
// is allocated. The values of columns are not checked; code that uses one as an index must check
// it.
//
// Ownership: an EncodedBatch keeps the block of its batch alive.
// Threads:   thread-safe.
#ifndef DING_WORKER_DATA_WIRE_H_
#define DING_WORKER_DATA_WIRE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/state.h"

namespace ding {

// A batch within something that is checked as a whole, such as a value of a store, needs no
// checksum of its own.
enum class BatchChecksum { kOwn, kNone };

// An encoded batch in pieces, for a gathering write: the header, the uncopied columns, and the
// checksum. It can be moved, but not copied, because the pieces point into it.
class EncodedBatch {
 public:
  explicit EncodedBatch(Batch batch, BatchChecksum checksum = BatchChecksum::kOwn);
  EncodedBatch(EncodedBatch&&) = default;
  EncodedBatch& operator=(EncodedBatch&&) = default;

  absl::Span<const absl::string_view> pieces() const { return pieces_; }
  // Returns a copy of the pieces as one string.
  std::string ToString() const;

 private:
  Batch batch_;
  std::unique_ptr<const std::string> header_;
  std::unique_ptr<const std::string> trailer_;
  std::vector<absl::string_view> pieces_;
};

// Returns the batch in `bytes`, which has been encoded with the same `checksum`, copied into a
// block of its own.
//   kDataLoss            the bytes are truncated or corrupted
//   kInvalidArgument     the bytes are intact, but the spec is not valid, or the sizes contradict
//                        each other
//   kFailedPrecondition  another major version wrote the bytes
//   kResourceExhausted   there is not enough memory
absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes,
                                  BatchChecksum checksum = BatchChecksum::kOwn);

// Does the same with a block of `pool`, whose layout the batch must have; kInvalidArgument names
// the first field that differs. The batch then has the pool's spec.
absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes, BlockPool* pool,
                                  BatchChecksum checksum = BatchChecksum::kOwn);

// Encodes a copy of the small state that `save` writes (the parameters of a policy), for another
// process. The bytes are a batch of one row whose fields are the tensors, so that they are checked
// in the same way.
//   kInvalidArgument  a tensor has no elements, which a spec does not allow
//   other codes       the errors of `save`
//
// Example:
//   DING_ASSIGN_OR_RETURN(const EncodedBatch model, EncodeState([&](StateWriter* writer) {
//                           return policy->learn_mode()->SaveModel(writer);
//                         }));
//   DING_RETURN_IF_ERROR(store->Put(key, model.pieces()));
absl::StatusOr<EncodedBatch> EncodeState(const std::function<absl::Status(StateWriter*)>& save);

// Returns a reader of the state in `bytes`. Its error messages name `source`. Returns the errors of
// DecodeBatch().
absl::StatusOr<std::shared_ptr<StateReader>> DecodeState(absl::string_view bytes,
                                                         absl::string_view source);

}  // namespace ding

#endif  // DING_WORKER_DATA_WIRE_H_
