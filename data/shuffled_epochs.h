// Returns rows in batches, epoch after epoch: each epoch has every row once, in a random order of
// its own.
//
// The order of epoch e is a function of the stream (seed, "data/epoch", e), so that two numbers say
// where to continue exactly.
//
// Ownership: shares the rows' block; batches are copies.
// Threads:   thread-compatible.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto epochs, ShuffledEpochs::Create(rows, /*batch_rows=*/64, seed));
//   DING_ASSIGN_OR_RETURN(const Batch batch, epochs->Next());
#ifndef DING_WORKER_DATA_SHUFFLED_EPOCHS_H_
#define DING_WORKER_DATA_SHUFFLED_EPOCHS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/state.h"

namespace ding {

class ShuffledEpochs {
 public:
  //   kInvalidArgument  no rows, or batch_rows below 1
  static absl::StatusOr<std::unique_ptr<ShuffledEpochs>> Create(Batch rows, int64_t batch_rows,
                                                                uint64_t seed);

  // Returns the next batch; the last one of an epoch may have fewer rows. kResourceExhausted
  // without the memory.
  absl::StatusOr<Batch> Next();

  // Makes the batch `number` of all epochs, at least 0, the next one.
  void SkipTo(int64_t number);

  // The epoch of the last batch, from 0.
  int64_t epoch() const { return epoch_; }

  absl::Status SaveState(StateWriter* writer) const;
  //   kInvalidArgument  these rows do not have the saved position; nothing is changed
  absl::Status LoadState(StateReader* reader);

 private:
  ShuffledEpochs(Batch rows, int64_t batch_rows, uint64_t seed);

  void Order();

  const Batch rows_;
  const int64_t batch_rows_;
  const uint64_t seed_;
  BlockPool pool_;
  int64_t epoch_ = 0;
  int64_t next_ = 0;            // index in order_
  std::vector<int64_t> order_;  // the rows of epoch_ in order
};

}  // namespace ding

#endif  // DING_WORKER_DATA_SHUFFLED_EPOCHS_H_
