// Returns rows in batches, epoch after epoch: each epoch has every row once, in a random order of
// its own.
//
// The rows come in parts, such as files. Parts that follow each other in a random order make a
// window: its rows are in memory at the same time, and in random order. The next window is loaded
// while batches of this one are learned from, so that two of them are in memory. If all rows fit
// into one window, they stay there.
//
// The order of epoch e is a function of seed, e and the window's size alone, so that two numbers
// say where to continue exactly.
//
// Ownership: shares the rows of the parts; batches are copies. Owns the thread that loads.
// Threads:   thread-compatible.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto epochs,
//                         ShuffledEpochs::Create(OnePart(rows), /*batch_rows=*/64, seed));
//   DING_ASSIGN_OR_RETURN(const Batch batch, epochs->Next());
#ifndef DING_WORKER_DATA_SHUFFLED_EPOCHS_H_
#define DING_WORKER_DATA_SHUFFLED_EPOCHS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

struct RowParts {
  SpecPtr spec;               // of the rows of all parts
  std::vector<int64_t> rows;  // of each part
  // Returns the rows of a part, the same ones each time. Thread-safe.
  std::function<absl::StatusOr<Batch>(int64_t part)> load;
};

RowParts OnePart(Batch rows);

class ShuffledEpochs {
 public:
  // A window has at most `window_rows` rows, or one part.
  //   kInvalidArgument  no rows, or batch_rows or window_rows below 1
  static absl::StatusOr<std::unique_ptr<ShuffledEpochs>> Create(
      RowParts parts, int64_t batch_rows, uint64_t seed,
      int64_t window_rows = std::numeric_limits<int64_t>::max());
  ~ShuffledEpochs();

  // Returns the next batch; the last one of an epoch may have fewer rows. After an error, such as
  // one of loading a part, the same batch is still the next one.
  //   kResourceExhausted  out of memory
  absl::StatusOr<Batch> Next();

  // Makes the batch `number` of all epochs, at least 0, the next one.
  void SkipTo(int64_t number);

  // The epoch of the last batch, from 0.
  int64_t epoch() const { return epoch_; }

  absl::Status SaveState(StateWriter* writer) const;
  //   kInvalidArgument  these rows do not have the saved position; nothing is changed
  absl::Status LoadState(StateReader* reader);

 private:
  struct Window {
    int64_t begin;  // its first row within the epoch
    int64_t rows;
    std::vector<int64_t> parts;
  };
  struct Loading;

  ShuffledEpochs(RowParts parts, int64_t batch_rows, uint64_t seed, int64_t window_rows);

  std::vector<Window> WindowsOf(int64_t epoch) const;
  absl::StatusOr<Batch> LoadPart(int64_t part) const;
  // `cancelled` may become true in the meantime: kCancelled.
  absl::StatusOr<Batch> Load(const Window& window, const std::atomic<bool>& cancelled) const;
  // Makes the window with row `next` of `epoch` the current one, in its order.
  absl::Status UseWindowOf(int64_t epoch, int64_t next);
  // Starts to load the window behind the current one.
  void LoadAhead();

  const RowParts parts_;
  const int64_t rows_;
  const int64_t batch_rows_;
  const uint64_t seed_;
  const int64_t window_rows_;
  BlockPool pool_;
  int64_t epoch_ = 0;
  int64_t next_ = 0;  // row within the epoch

  // The current window.
  int64_t window_epoch_ = -1;
  size_t window_ = 0;            // index in windows_
  std::vector<Window> windows_;  // of window_epoch_
  Batch loaded_;
  std::vector<int64_t> order_;      // of the rows of loaded_
  std::unique_ptr<Loading> ahead_;  // null: nothing is loaded ahead
};

}  // namespace ding

#endif  // DING_WORKER_DATA_SHUFFLED_EPOCHS_H_
