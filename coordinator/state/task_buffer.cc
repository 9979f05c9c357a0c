#include "ding_worker/coordinator/state/task_buffer.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

// The rows that a demand drew.
struct Drawn {
  LearnerData answer;
  int64_t rows = 0;
  double staleness = 0;  // the mean; 0 if the rows do not have it
  int64_t too_old = 0;   // how many rows were left out; also set if drawing fails
};

// The most further draws for one batch, which replace rows that must be left out of it.
constexpr int kMaxRefills = 16;
// The most rows of a chunk: far more than fit into a value of the store.
constexpr int64_t kMaxChunkRows = int64_t{1} << 32;

// Returns the mean number of train iterations since the rows were collected.
double Staleness(const Batch& batch, int64_t train_iter) {
  const std::optional<int> index = batch.spec().Find(kColumnCollectIter);
  if (!index.has_value() || batch.spec().field(*index).dtype != DType::kInt64) return 0;
  double sum = 0;
  for (const int64_t iter : batch.column<int64_t>(*index)) {
    sum += std::max(0.0, static_cast<double>(train_iter) - static_cast<double>(iter));
  }
  return sum / static_cast<double>(batch.rows());
}

// Returns the rows of `batch` whose chunks are not in `undrawable`; all rows if it is null.
std::vector<int64_t> Drawable(const Batch& batch, const ChunkSet* undrawable) {
  std::vector<int64_t> rows;
  const absl::Span<const int64_t> chunks = batch.column<int64_t>(kColumnChunk);
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (undrawable != nullptr && undrawable->contains(chunks[i])) continue;
    rows.push_back(static_cast<int64_t>(i));
  }
  return rows;
}

// Removes the rows whose collect_iter is none of `iters` from `rows`. Removes none if `iters` is
// empty.
void KeepRowsOf(const Batch& batch, const std::set<int64_t>& iters, std::vector<int64_t>* rows) {
  const std::optional<int> index = batch.spec().Find(kColumnCollectIter);
  if (iters.empty() || !index.has_value()) return;
  const absl::Span<const int64_t> of_rows = batch.column<int64_t>(*index);
  rows->erase(std::remove_if(
                  rows->begin(), rows->end(),
                  [&](int64_t row) { return iters.count(of_rows[static_cast<size_t>(row)]) == 0; }),
              rows->end());
}

absl::StatusOr<Batch> Sample(IBuffer* rows, const LearnerDemand& demand,
                             const ChunkSet* undrawable) {
  const int64_t size = demand.batch_size();
  DING_ASSIGN_OR_RETURN(Batch drawn, rows->Sample(size, demand.train_iter()));
  if (undrawable == nullptr) return drawn;
  std::vector<int64_t> good = Drawable(drawn, undrawable);
  if (static_cast<int64_t>(good.size()) == size) return drawn;
  DING_ASSIGN_OR_RETURN(BatchBuilder batch, BatchBuilder::Create(drawn.spec_ptr(), size));
  int64_t filled = 0;
  for (int refills = 0;; ++refills) {
    GatherRows(drawn.view(), good, batch.view(), filled);
    filled += static_cast<int64_t>(good.size());
    if (filled == size) return std::move(batch).Seal(size);
    if (refills == kMaxRefills) break;
    DING_ASSIGN_OR_RETURN(drawn, rows->Sample(size - filled, demand.train_iter()));
    good = Drawable(drawn, undrawable);
  }
  return absl::FailedPreconditionError(absl::StrCat("rows that can be learned from: ", filled,
                                                    " of ", size, " were found beside those of ",
                                                    undrawable->size(), " bad chunks"));
}

absl::Status DrawBatches(IBuffer* rows, const LearnerDemand& demand, const ChunkSet* undrawable,
                         bool all, Drawn* drawn) {
  for (int i = 0; i < demand.batches(); ++i) {
    const absl::StatusOr<Batch> batch = Sample(rows, demand, undrawable);
    if (!batch.ok()) return i == 0 || all ? batch.status() : absl::OkStatus();
    drawn->staleness += (Staleness(*batch, demand.train_iter()) - drawn->staleness) / (i + 1);
    drawn->rows += batch->rows();
    drawn->answer.add_items(EncodedBatch(*batch).ToString());
  }
  return absl::OkStatus();
}

absl::Status DrawRound(IBuffer* rows, const LearnerDemand& demand, const ChunkSet* undrawable,
                       Drawn* drawn) {
  const std::set<int64_t> iters(demand.collect_iter().begin(), demand.collect_iter().end());
  while (drawn->rows == 0) {
    // A round takes its share of all rows that are there. Rows that it left over would be older
    // than the other rows of the next round.
    const int64_t there = rows->count();
    const int64_t rounds = std::max<int64_t>(1, there / demand.batch_size());
    const int64_t size = std::max(demand.batch_size(), there / rounds);
    SampleOptions oldest;
    oldest.range = AgeRange{0, size};
    DING_ASSIGN_OR_RETURN(const Batch batch, rows->Sample(size, demand.train_iter(), oldest));
    std::vector<int64_t> good = Drawable(batch, undrawable);
    const size_t drawable = good.size();
    KeepRowsOf(batch, iters, &good);
    drawn->too_old += static_cast<int64_t>(drawable - good.size());
    if (good.empty()) continue;
    DING_ASSIGN_OR_RETURN(
        BatchBuilder kept,
        BatchBuilder::Create(batch.spec_ptr(), static_cast<int64_t>(good.size())));
    GatherRows(batch.view(), good, kept.view(), 0);
    const Batch round = std::move(kept).Seal(static_cast<int64_t>(good.size()));
    drawn->rows = round.rows();
    drawn->staleness = Staleness(round, demand.train_iter());
    drawn->answer.add_items(EncodedBatch(round).ToString());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ChunksOf(const Batch& items, uint32_t worker,
                                              int64_t overlap) {
  const absl::Span<const int64_t> chunk = items.column<int64_t>(kColumnChunk);
  const absl::Span<const int64_t> row = items.column<int64_t>(kColumnRow);
  const absl::Span<const int64_t> length = items.column<int64_t>(kColumnLength);
  std::vector<int64_t> chunks;
  bool in_order = true;
  int64_t next_row = 0;  // the lowest row with which the next item of the same chunk may begin
  for (size_t i = 0; i < chunk.size(); ++i) {
    if (row[i] >= kMaxChunkRows || length[i] >= kMaxChunkRows) {
      return absl::InvalidArgumentError(absl::StrCat("an item of ", length[i], " rows from row ",
                                                     row[i], " on of chunk ", chunk[i],
                                                     ", expected fewer than ", kMaxChunkRows));
    }
    if (!chunks.empty() && chunk[i] == chunks.back()) {
      in_order = in_order && row[i] >= next_row;
    } else if (chunk[i] < 0 || WorkerOfChunk(chunk[i]) != worker) {
      return absl::InvalidArgumentError(absl::StrCat("an item of chunk ", chunk[i],
                                                     ", which does not belong to worker ", worker,
                                                     "; expected a chunk of that worker"));
    } else {
      in_order = in_order && (chunks.empty() || chunk[i] > chunks.back());
      chunks.push_back(chunk[i]);
    }
    next_row = row[i] + std::max<int64_t>(1, length[i] - overlap);
  }
  // An honest collector announces its items in this order.
  if (in_order) return chunks;

  std::vector<size_t> order(chunk.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(chunk[a], row[a]) < std::tie(chunk[b], row[b]);
  });
  for (size_t n = 1; n < order.size(); ++n) {
    const size_t previous = order[n - 1];
    const size_t i = order[n];
    const int64_t free_row = row[previous] + std::max<int64_t>(1, length[previous] - overlap);
    if (chunk[i] != chunk[previous] || row[i] >= free_row) continue;
    // A row that is announced twice would be drawn, and counted, twice.
    std::string expected = "one for each row";
    if (overlap > 0) expected = absl::StrCat("at most ", overlap, " rows in common");
    return absl::InvalidArgumentError(absl::StrCat("two items have row ", row[i], " of chunk ",
                                                   chunk[i], ", expected ", expected));
  }
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

TaskBuffer::TaskBuffer(std::string id, const Limits& limits, std::vector<std::string> settings)
    : id_(std::move(id)), limits_(limits), settings_(std::move(settings)) {
  if (!limits_.replay_ratio.has_value() && limits_.random_rows == 0) return;
  ReplayRatioLimiter::Options options =
      limits_.replay_ratio.value_or(ReplayRatioLimiter::Options());
  options.min_size = std::max(options.min_size, limits_.random_rows);
  limiter_.emplace(options);
}

void TaskBuffer::Recovered(const BufferRecord& record, int64_t rows_lost) {
  rows_before_ = record.rows_total() - rows_->push_count();
  rows_lost_ = rows_lost;
  rows_removed_ = record.rows_total() - rows_lost - rows_->count();
  rows_pushed_ = record.rows_total();
  rows_drawn_ = record.rows_drawn();
  env_steps_ = record.envstep();
  if (limiter_.has_value()) limiter_->Restore(rows_pushed_, rows_drawn_);
}

absl::Status TaskBuffer::CheckPush(int64_t rows) {
  if (!limiter_.has_value() || hungry_) return absl::OkStatus();
  const absl::Status allowed = limiter_->CheckPush(rows);
  if (allowed.ok() || learner_.has_value()) return allowed;
  return absl::UnavailableError(absl::StrCat("a learner, and ", allowed.message()));
}

absl::Status TaskBuffer::CheckGoOn(int64_t rows, int collecting) const {
  const LearningRounds& rounds = *limits_.rounds;
  const int64_t coming = collecting * rounds.hand_over_rows;
  // A demand that waits adds one round: its rows are learned from by the same version that collects
  // them now.
  const int64_t wanted = rounds.ahead + (demands_.empty() ? 0 : 1);
  if (rows + coming < wanted * rounds.rows) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      learner_.has_value() ? "the learner to learn from a round of " : "a learner, for a round of ",
      rounds.rows, " rows (", rows, " are there, ", coming, " are being collected)"));
}

void TaskBuffer::Pushed(int64_t rows) {
  // The demand that waits is tried again with these rows, before further rows may exceed the bound.
  hungry_ = false;
  rows_pushed_ += rows;
  if (limiter_.has_value()) limiter_->CountPush(rows);
}

void TaskBuffer::ForgetLearner() {
  learner_.reset();
  demands_.clear();
  hungry_ = false;
  chunks_.ForgetReader();
}

absl::Status TaskBuffer::AddDemand(const LearnerDemand& demand) {
  chunks_.Read(demand.read());
  if (demands_.size() >= kMaxWaitingDemands) {
    return absl::ResourceExhaustedError(absl::StrCat(
        demands_.size(), " demands wait for data, expected at most ", kMaxWaitingDemands));
  }
  if (chunks_.unread() >= kMaxUnreadDemands) {
    return absl::ResourceExhaustedError(absl::StrCat(
        chunks_.unread(), " answers are not reported read, expected at most ", kMaxUnreadDemands));
  }
  demands_.push_back(demand);
  return absl::OkStatus();
}

absl::Status TaskBuffer::CheckRatio(LearnerDemand* demand) {
  if (!limiter_.has_value()) return absl::OkStatus();
  int allowed = 0;
  absl::Status status;
  while (allowed < demand->batches() && status.ok()) {
    status = limiter_->CheckSample((allowed + 1) * demand->batch_size());
    if (status.ok()) ++allowed;
  }
  if (allowed == 0) return status;
  demand->set_batches(allowed);
  return absl::OkStatus();
}

absl::StatusOr<LearnerData> TaskBuffer::DrawFirst(bool whole) {
  LearnerDemand demand = demands_.front();
  chunks_.BeginDraw(demand.sequence());
  // Rows that leave the buffer now must not change which ones are left out.
  const std::shared_ptr<const ChunkSet> bad = chunks_.undrawable();
  const ChunkSet* const undrawable = bad->empty() ? nullptr : bad.get();
  if (whole && has_rounds()) {
    demand.set_batch_size(std::max<int64_t>(1, rows_total() - rows_drawn_));
  }
  Drawn drawn;
  absl::Status status = CheckRatio(&demand);
  if (status.ok()) {
    status = has_rounds() ? DrawRound(rows_.get(), demand, undrawable, &drawn)
                          : DrawBatches(rows_.get(), demand, undrawable, whole, &drawn);
  }
  rows_too_old_ += drawn.too_old;
  hungry_ = !status.ok();
  if (!status.ok()) {
    chunks_.CancelDraw(demand.sequence());
    return status;
  }
  demands_.pop_front();
  rows_drawn_ += drawn.rows;
  if (limiter_.has_value()) limiter_->CountSample(drawn.rows);
  staleness_ = drawn.staleness;
  drawn.answer.set_task_id(demand.task_id());
  drawn.answer.set_sequence(demand.sequence());
  drawn.answer.set_envstep(env_steps_);
  return std::move(drawn.answer);
}

void TaskBuffer::Removed(const RemovedItems& removed) {
  rows_removed_ += static_cast<int64_t>(removed.items.size());
  chunks_.Leave(removed.chunks);
}

void TaskBuffer::FillStatus(BufferStatus* status) const {
  status->set_buffer_id(id_);
  status->set_count(rows_->count());
  status->set_push_count(rows_total());
  status->set_sample_count(rows_drawn_);
  status->set_removed_count(rows_removed_);
  status->set_lost_count(rows_lost_);
  status->set_chunks(chunks_.stored());
  if (limits_.replay_ratio.has_value()) status->set_replay_ratio(limiter_->ratio());
  if (chunks_.marked() > 0) status->set_bad_chunks(chunks_.marked());
  if (staleness_.has_value()) status->set_staleness_iterations(*staleness_);
  if (has_rounds()) status->set_too_old_count(rows_too_old_);
}

}  // namespace ding
