#include "ding_worker/learner/testing/naive_learner.h"

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

constexpr absl::Duration kDataTimeout = absl::Minutes(10);

}  // namespace

// NaiveCollector has the same frame up to RunTask(). Both stay, because each is a small example of
// a whole worker and is read on its own.
NaiveLearner::NaiveLearner(WorkerSession* session, Store* store)
    : session_(session),
      store_(store),
      slave_(session, {[this](const StartTask&) { RunTask(); }, /*close=*/nullptr}) {}

absl::StatusOr<EndRun> NaiveLearner::Run() { return slave_.Serve(); }

void NaiveLearner::Close() { session_->Close("the learner leaves the run"); }

void NaiveLearner::RunTask() {
  absl::Status status = Learn();
  if (!status.ok()) status = slave_.Fail(status);
  if (!status.ok()) DING_LOG(INFO) << "the end of a task is not reported: " << status.message();
}

absl::Status NaiveLearner::Learn() {
  DING_RETURN_IF_ERROR(slave_.Started());
  int64_t learned = 0;
  while (learned <= kMaxBatches) {
    DING_RETURN_IF_ERROR(slave_.Demand(kBatchSize, /*batches=*/1, /*train_iter=*/learned).status());
    DING_ASSIGN_OR_RETURN(const LearnerData data, slave_.NextData(kDataTimeout));
    LearnerInfo info;
    for (const std::string& items : data.items()) {
      DING_RETURN_IF_ERROR(LearnFrom(items, &info));
      slave_.CountRead(data.sequence());
    }
    info.set_learner_step(++learned);
    info.set_learner_done(learned > kMaxBatches);
    DING_RETURN_IF_ERROR(slave_.SendInfo(std::move(info)));
  }
  return absl::OkStatus();
}

absl::Status NaiveLearner::LearnFrom(absl::string_view items, LearnerInfo* info) {
  DING_ASSIGN_OR_RETURN(const Batch batch, DecodeBatch(items));
  std::string bytes;
  for (const int64_t chunk : batch.column<int64_t>(kColumnChunk)) {
    const bool read = store_->Get(ChunkKey(chunk), &bytes).ok();
    (read ? read_rows_ : missing_rows_).fetch_add(1);
  }
  // Only a buffer with priorities sends these columns.
  if (!batch.spec().Find(kColumnPriority).has_value() ||
      !batch.spec().Find(kColumnReplayBufferIdx).has_value()) {
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < batch.rows(); ++i) {
    const auto row = static_cast<size_t>(i);
    info->add_priority(batch.column<float>(kColumnPriority)[row]);
    info->add_replay_unique_id(batch.column<int64_t>(kColumnReplayUniqueId)[row]);
    info->add_replay_buffer_idx(batch.column<int64_t>(kColumnReplayBufferIdx)[row]);
  }
  return absl::OkStatus();
}

}  // namespace ding
