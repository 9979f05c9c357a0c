#include "ding_worker/collector/testing/naive_collector.h"

#include <utility>

#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

// A whole episode; its observation is the number of its chunk in the task.
absl::StatusOr<SegmentBatch> OneRow(int number) {
  DING_ASSIGN_OR_RETURN(
      const SpecPtr rows,
      MakeSpec({Box(kColumnObs, {}), Discrete(kColumnAction, 2),
                Scalar(kColumnReward, DType::kFloat32), Scalar(kColumnPriority, DType::kFloat32)}));
  DING_ASSIGN_OR_RETURN(BatchBuilder row, BatchBuilder::Create(rows, 1));
  row.column<float>(0)[0] = static_cast<float>(number);
  row.column<int64_t>(1)[0] = number % 2;
  row.column<float>(2)[0] = 1;
  row.column<float>(3)[0] = 1;
  DING_ASSIGN_OR_RETURN(const SpecPtr obs, MakeSpec({Box(kColumnObs, {})}));
  DING_ASSIGN_OR_RETURN(BatchBuilder final_obs, BatchBuilder::Create(obs, 1));
  final_obs.column<float>(0)[0] = static_cast<float>(number + 1);
  SegmentBatch data;
  data.rows = std::move(row).Seal(1);
  data.final_obs = std::move(final_obs).Seal(1);
  data.segments = {{0, number, 0, 1, SegmentEnd::kTerminated}};
  return data;
}

}  // namespace

// NaiveLearner has the same frame up to RunTask(). Both stay, because each is a small example of a
// whole worker and is read on its own.
NaiveCollector::NaiveCollector(WorkerSession* session, Store* store)
    : session_(session),
      store_(store),
      slave_(session, {[this](const StartTask&) { RunTask(); }, /*close=*/nullptr}) {}

absl::StatusOr<EndRun> NaiveCollector::Run() { return slave_.Serve(); }

void NaiveCollector::Close() { session_->Close("the collector leaves the run"); }

void NaiveCollector::RunTask() {
  absl::Status status = Collect();
  if (!status.ok()) status = slave_.Fail(status);
  if (!status.ok()) DING_LOG(INFO) << "the end of a task is not reported: " << status.message();
}

absl::Status NaiveCollector::Collect() {
  DING_RETURN_IF_ERROR(slave_.Started());
  CollectorProgress progress;
  while (progress.cur_sample < kChunksPerTask) {
    DING_RETURN_IF_ERROR(slave_.TaskStatus());
    ++progress.cur_episode;
    ++progress.cur_sample;
    ++progress.cur_step;
    const int64_t chunk = ChunkNumber(slave_.worker(), ++chunks_);
    DING_ASSIGN_OR_RETURN(const SegmentBatch row, OneRow(static_cast<int>(progress.cur_sample)));
    DING_RETURN_IF_ERROR(store_->Put(ChunkKey(chunk), EncodedSegments(row).pieces()));
    DING_ASSIGN_OR_RETURN(std::string items, EncodeItems(row, chunk));
    const absl::Status announced = slave_.Announce(std::move(items), progress);
    if (!announced.ok()) {  // Nobody will ask for it.
      DING_RETURN_IF_ERROR(store_->Delete(ChunkKey(chunk)));
      return announced;
    }
  }
  CollectorFinished info;
  info.set_collector_done(true);
  info.set_env_num(1);
  info.set_step_count(progress.cur_step);
  info.set_sample_count(progress.cur_sample);
  return slave_.Finish(std::move(info));
}

}  // namespace ding
