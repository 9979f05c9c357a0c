#include "ding_worker/data/shuffled_epochs.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {

// A window that a thread loads.
struct ShuffledEpochs::Loading {
  ~Loading() {
    cancelled = true;
    if (thread.joinable()) thread.join();
  }

  int64_t epoch;
  size_t number;
  Window window;
  std::atomic<bool> cancelled{false};
  absl::StatusOr<Batch> rows = absl::InternalError("not loaded");  // read it after a join
  std::thread thread;
};

RowParts OnePart(Batch rows) {
  RowParts parts{rows.spec_ptr(), {rows.rows()}, {}};
  parts.load = [rows = std::move(rows)](int64_t /*part*/) { return rows; };
  return parts;
}

absl::StatusOr<std::unique_ptr<ShuffledEpochs>> ShuffledEpochs::Create(RowParts parts,
                                                                       int64_t batch_rows,
                                                                       uint64_t seed,
                                                                       int64_t window_rows) {
  const int64_t rows = std::accumulate(parts.rows.begin(), parts.rows.end(), int64_t{0});
  if (rows < 1 || batch_rows < 1 || window_rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("epochs of ", rows, " rows in batches of ",
                                                   batch_rows, " and windows of ", window_rows,
                                                   ", expected at least 1 row in each"));
  }
  return absl::WrapUnique(new ShuffledEpochs(std::move(parts), batch_rows, seed, window_rows));
}

ShuffledEpochs::ShuffledEpochs(RowParts parts, int64_t batch_rows, uint64_t seed,
                               int64_t window_rows)
    : parts_(std::move(parts)),
      rows_(std::accumulate(parts_.rows.begin(), parts_.rows.end(), int64_t{0})),
      batch_rows_(std::min(batch_rows, rows_)),
      seed_(seed),
      window_rows_(window_rows),
      pool_(parts_.spec) {}

ShuffledEpochs::~ShuffledEpochs() = default;

std::vector<ShuffledEpochs::Window> ShuffledEpochs::WindowsOf(int64_t epoch) const {
  std::vector<int64_t> order(parts_.rows.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  if (rows_ > window_rows_) {
    Rng rng(seed_, "data/parts", static_cast<uint64_t>(epoch));
    Shuffle(absl::MakeSpan(order), &rng);
  }
  std::vector<Window> windows = {{0, 0, {}}};
  for (const int64_t part : order) {
    const int64_t rows = parts_.rows[static_cast<size_t>(part)];
    if (rows == 0) continue;
    const Window& last = windows.back();
    if (last.rows > 0 && rows > window_rows_ - last.rows) {
      windows.push_back({last.begin + last.rows, 0, {}});
    }
    windows.back().rows += rows;
    windows.back().parts.push_back(part);
  }
  return windows;
}

absl::StatusOr<Batch> ShuffledEpochs::LoadPart(int64_t part) const {
  DING_ASSIGN_OR_RETURN(Batch rows, parts_.load(part));
  const int64_t wanted = parts_.rows[static_cast<size_t>(part)];
  if (rows.rows() == wanted && rows.spec() == *parts_.spec) return rows;
  return absl::DataLossError(absl::StrCat("part ", part, " of the data has ", rows.rows(),
                                          " rows of ", rows.spec().DebugString(), ", expected ",
                                          wanted, " of ", parts_.spec->DebugString()));
}

absl::StatusOr<Batch> ShuffledEpochs::Load(const Window& window,
                                           const std::atomic<bool>& cancelled) const {
  if (window.parts.size() == 1) return LoadPart(window.parts[0]);
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(parts_.spec, window.rows));
  int64_t begin = 0;
  for (const int64_t part : window.parts) {
    if (cancelled) return absl::CancelledError("nobody needs the window any more");
    DING_ASSIGN_OR_RETURN(const Batch rows, LoadPart(part));
    CopyRows(rows.view(), builder.view(), begin);
    begin += rows.rows();
  }
  return std::move(builder).Seal(window.rows);
}

absl::Status ShuffledEpochs::UseWindowOf(int64_t epoch, int64_t next) {
  if (window_epoch_ == epoch && next >= windows_[window_].begin &&
      next < windows_[window_].begin + windows_[window_].rows) {
    return absl::OkStatus();
  }
  std::vector<Window> windows = WindowsOf(epoch);
  size_t number = windows.size() - 1;
  while (windows[number].begin > next) --number;
  if (windows.size() > 1 || loaded_.empty()) {
    window_epoch_ = -1;
    loaded_ = Batch();  // before another window takes memory
    std::unique_ptr<Loading> ahead = std::move(ahead_);
    const bool expected = ahead != nullptr && ahead->epoch == epoch && ahead->number == number;
    if (expected) ahead->thread.join();
    if (expected && ahead->rows.ok()) {
      loaded_ = *std::move(ahead->rows);
    } else {
      ahead.reset();  // What failed then may succeed now, with the memory of one window more.
      DING_ASSIGN_OR_RETURN(loaded_, Load(windows[number], /*cancelled=*/false));
    }
  }
  windows_ = std::move(windows);
  window_epoch_ = epoch;
  window_ = number;
  order_.resize(static_cast<size_t>(loaded_.rows()));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  Rng rng(seed_, windows_.size() == 1 ? "data/epoch" : absl::StrCat("data/window/", number),
          static_cast<uint64_t>(epoch));
  Shuffle(absl::MakeSpan(order_), &rng);
  LoadAhead();
  return absl::OkStatus();
}

void ShuffledEpochs::LoadAhead() {
  if (windows_.size() == 1) return;
  auto ahead = std::make_unique<Loading>();
  const bool in_epoch = window_ + 1 < windows_.size();
  ahead->epoch = in_epoch ? window_epoch_ : window_epoch_ + 1;
  ahead->number = in_epoch ? window_ + 1 : 0;
  ahead->window = in_epoch ? windows_[window_ + 1] : WindowsOf(ahead->epoch)[0];
  absl::StatusOr<std::thread> thread = StartThread("loading a data set", [this, to = ahead.get()] {
    to->rows = Load(to->window, to->cancelled);
  });
  if (!thread.ok()) return;  // Next() loads it.
  ahead->thread = *std::move(thread);
  ahead_ = std::move(ahead);
}

absl::StatusOr<Batch> ShuffledEpochs::Next() {
  const bool ended = next_ == rows_;
  const int64_t epoch = ended ? epoch_ + 1 : epoch_;
  int64_t next = ended ? 0 : next_;
  const int64_t count = std::min(batch_rows_, rows_ - next);
  DING_ASSIGN_OR_RETURN(BatchBuilder batch, pool_.Allocate(count));
  for (int64_t taken = 0; taken < count;) {
    DING_RETURN_IF_ERROR(UseWindowOf(epoch, next));
    const Window& window = windows_[window_];
    const int64_t rows = std::min(count - taken, window.begin + window.rows - next);
    const auto chosen = absl::MakeConstSpan(order_).subspan(
        static_cast<size_t>(next - window.begin), static_cast<size_t>(rows));
    GatherRows(loaded_.view(), chosen, batch.view(), taken);
    taken += rows;
    next += rows;
  }
  epoch_ = epoch;
  next_ = next;
  return std::move(batch).Seal(count);
}

void ShuffledEpochs::SkipTo(int64_t number) {
  DING_CHECK(number >= 0) << "batch " << number;
  const int64_t batches_per_epoch = (rows_ + batch_rows_ - 1) / batch_rows_;
  epoch_ = number / batches_per_epoch;
  next_ = number % batches_per_epoch * batch_rows_;
}

absl::Status ShuffledEpochs::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("epoch", epoch_));
  return writer->WriteInt("next_row", next_);
}

absl::Status ShuffledEpochs::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t epoch, reader->ReadCount("epoch"));
  DING_ASSIGN_OR_RETURN(const int64_t next, reader->ReadInt("next_row"));
  if (next < 0 || next > rows_) {
    return absl::InvalidArgumentError(absl::StrCat("the saved position is row ", next, " of epoch ",
                                                   epoch, ", expected 0 to ", rows_));
  }
  epoch_ = epoch;
  next_ = next;
  return absl::OkStatus();
}

}  // namespace ding
