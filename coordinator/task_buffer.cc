#include "ding_worker/coordinator/task_buffer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"

namespace ding {
namespace {

// Mean iterations since the rows were collected.
double Staleness(const Batch& batch, int64_t train_iter) {
  const std::optional<int> index = batch.spec().Find(kColumnCollectIter);
  if (!index.has_value() || batch.spec().field(*index).dtype != DType::kInt64) return 0;
  double sum = 0;
  for (const int64_t iter : batch.column<int64_t>(*index)) {
    sum += std::max(0.0, static_cast<double>(train_iter) - static_cast<double>(iter));
  }
  return sum / static_cast<double>(batch.rows());
}

}  // namespace

absl::StatusOr<Drawn> Draw(IBuffer* rows, const LearnerDemand& demand) {
  Drawn drawn;
  for (int i = 0; i < demand.batches(); ++i) {
    const absl::StatusOr<Batch> batch = rows->Sample(demand.batch_size(), demand.train_iter());
    if (!batch.ok()) {
      if (i == 0) return batch.status();
      break;
    }
    drawn.staleness += (Staleness(*batch, demand.train_iter()) - drawn.staleness) / (i + 1);
    drawn.rows += batch->rows();
    drawn.answer.add_items(EncodedBatch(*batch).ToString());
  }
  drawn.answer.set_task_id(demand.task_id());
  drawn.answer.set_sequence(demand.sequence());
  return drawn;
}

absl::StatusOr<std::vector<int64_t>> ChunksOf(const Batch& items, uint32_t worker) {
  std::vector<int64_t> chunks;
  for (const int64_t chunk : items.column<int64_t>(kColumnChunk)) {
    if (chunk < 0 || WorkerOfChunk(chunk) != worker) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an item of chunk ", chunk, ", which is none of worker ", worker, "; expected its own"));
    }
    if (chunks.empty() || chunks.back() != chunk) chunks.push_back(chunk);
  }
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

void TaskBuffer::Recovered(int64_t rows_total, int64_t rows_lost) {
  rows_before_ = rows_total - rows_->push_count();
  rows_lost_ = rows_lost;
  rows_removed_ = rows_total - rows_lost - rows_->count();
}

void TaskBuffer::ForgetLearner() {
  learner_.reset();
  demands_.clear();
  removed_.ForgetReader();
}

absl::Status TaskBuffer::AddDemand(const LearnerDemand& demand) {
  removed_.Read(demand.read());
  if (demands_.size() >= kMaxWaitingDemands) {
    return absl::ResourceExhaustedError(absl::StrCat(
        demands_.size(), " demands wait for data, expected at most ", kMaxWaitingDemands));
  }
  if (removed_.unread() >= kMaxUnreadDemands) {
    return absl::ResourceExhaustedError(absl::StrCat(
        removed_.unread(), " answers are not reported read, expected at most ", kMaxUnreadDemands));
  }
  demands_.push_back(demand);
  return absl::OkStatus();
}

bool TaskBuffer::BeginServing() {
  if (serving_) {
    serve_again_ = true;
    return false;
  }
  serving_ = true;
  return true;
}

std::optional<LearnerDemand> TaskBuffer::NextDemand(bool answered) {
  const bool worth_it = answered || serve_again_;
  serve_again_ = false;
  if (demands_.empty() || !worth_it) {
    serving_ = false;
    return std::nullopt;
  }
  removed_.BeginDraw(demands_.front().sequence());
  return demands_.front();
}

bool TaskBuffer::IsAsked(const LearnerDemand& demand) const {
  return !demands_.empty() && demands_.front().task_id() == demand.task_id();
}

void TaskBuffer::Answered(const Drawn& drawn) {
  demands_.pop_front();
  ++answers_;
  rows_drawn_ += drawn.rows;
  staleness_ = drawn.staleness;
}

void TaskBuffer::Removed(const RemovedItems& removed) {
  rows_removed_ += static_cast<int64_t>(removed.items.size());
  removed_.Add(removed.chunks);
}

std::vector<int64_t> TaskBuffer::TakeDeletable() {
  std::vector<int64_t> chunks = removed_.TakeDeletable();
  DropChunks(chunks.size());
  return chunks;
}

void TaskBuffer::FillRows(BufferStatus* status) const {
  status->set_count(rows_->count());
  status->set_push_count(rows_total());
}

void TaskBuffer::FillStatus(BufferStatus* status) const {
  status->set_buffer_id(id_);
  status->set_sample_count(rows_drawn_);
  status->set_removed_count(rows_removed_);
  status->set_lost_count(rows_lost_);
  status->set_chunks(chunks_);
  status->set_staleness_iterations(staleness_);
}

}  // namespace ding
