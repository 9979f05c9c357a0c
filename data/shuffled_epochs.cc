#include "ding_worker/data/shuffled_epochs.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<std::unique_ptr<ShuffledEpochs>> ShuffledEpochs::Create(Batch rows,
                                                                       int64_t batch_rows,
                                                                       uint64_t seed) {
  if (rows.empty() || batch_rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("epochs of ", rows.rows(),
                                                   " rows in batches of ", batch_rows,
                                                   ", expected at least 1 row in both"));
  }
  return absl::WrapUnique(new ShuffledEpochs(std::move(rows), batch_rows, seed));
}

ShuffledEpochs::ShuffledEpochs(Batch rows, int64_t batch_rows, uint64_t seed)
    : rows_(std::move(rows)),
      batch_rows_(std::min(batch_rows, rows_.rows())),
      seed_(seed),
      pool_(rows_.spec_ptr()),
      order_(static_cast<size_t>(rows_.rows())) {
  Order();
}

void ShuffledEpochs::Order() {
  std::iota(order_.begin(), order_.end(), int64_t{0});
  Rng rng(seed_, "data/epoch", static_cast<uint64_t>(epoch_));
  Shuffle(absl::MakeSpan(order_), &rng);
}

absl::StatusOr<Batch> ShuffledEpochs::Next() {
  const bool ended = next_ == rows_.rows();
  const int64_t count = std::min(batch_rows_, rows_.rows() - (ended ? 0 : next_));
  DING_ASSIGN_OR_RETURN(BatchBuilder batch, pool_.Allocate(count));
  if (ended) {
    ++epoch_;
    next_ = 0;
    Order();
  }
  const auto chosen =
      absl::MakeConstSpan(order_).subspan(static_cast<size_t>(next_), static_cast<size_t>(count));
  GatherRows(rows_.view(), chosen, batch.view(), 0);
  next_ += count;
  return std::move(batch).Seal(count);
}

void ShuffledEpochs::SkipTo(int64_t number) {
  DING_CHECK(number >= 0) << "batch " << number;
  const int64_t batches_per_epoch = (rows_.rows() + batch_rows_ - 1) / batch_rows_;
  const int64_t epoch = number / batches_per_epoch;
  next_ = number % batches_per_epoch * batch_rows_;
  if (epoch == epoch_) return;
  epoch_ = epoch;
  Order();
}

absl::Status ShuffledEpochs::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("epoch", epoch_));
  return writer->WriteInt("next_row", next_);
}

absl::Status ShuffledEpochs::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t epoch, reader->ReadCount("epoch"));
  DING_ASSIGN_OR_RETURN(const int64_t next, reader->ReadInt("next_row"));
  if (next < 0 || next > rows_.rows()) {
    return absl::InvalidArgumentError(absl::StrCat("the saved position is row ", next, " of epoch ",
                                                   epoch, ", expected 0 to ", rows_.rows()));
  }
  epoch_ = epoch;
  next_ = next;
  Order();
  return absl::OkStatus();
}

}  // namespace ding
