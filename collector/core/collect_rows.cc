#include "ding_worker/collector/core/collect_rows.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "glog/logging.h"

namespace ding {

absl::StatusOr<Collected> RowCollection::Collect(absl::Span<const int> wanted,
                                                 const CollectOptions& options) {
  const Timer timer(core_->deps().clock);
  absl::StatusOr<std::vector<SegmentBatch>> data = TryCollect(wanted, options);
  std::vector<CollectedEpisode> episodes =
      core_->statistics().TakeFinished(options.record_episodes);
  if (!data.ok()) return Annotate(data.status(), core_->deps().name);
  for (const int player : wanted) {
    DING_RETURN_IF_ERROR(
        Annotate(core_->MakeTrainSamples(player, &(*data)[player]), core_->deps().name));
  }
  core_->statistics().FinishCollect(options.record_episodes, timer.Seconds(), options.train_iter,
                                    core_->deps());
  return Collected{*std::move(data), std::move(episodes)};
}

absl::StatusOr<std::vector<SegmentBatch>> RowCollection::TryCollect(absl::Span<const int> wanted,
                                                                    const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(const int64_t target, Target(options));
  DING_RETURN_IF_ERROR(core_->PrepareLevelSeeds(options.level_seeds));
  DING_RETURN_IF_ERROR(Gather(wanted, target, options));
  const ReadyObs now = core_->env()->ready_obs();
  std::vector<SegmentBatch> data(static_cast<size_t>(core_->player_num()));
  for (int i = 0; i < core_->player_num(); ++i) {
    TrajBuffer& traj = *core_->player(i).traj;
    const bool is_wanted = std::binary_search(wanted.begin(), wanted.end(), i);
    const int64_t rows = !is_wanted ? 0 : options.drop_extra ? target : traj.ready_rows();
    DING_ASSIGN_OR_RETURN(data[i], core_->Take(i, rows, now));
    if (core_->player(i).attributes.on_policy && traj.held_rows() > 0) traj.DropHeldRows();
    core_->statistics().CountSamples(data[i].segments);
  }
  return data;
}

absl::StatusOr<int64_t> RowCollection::Target(const CollectOptions& options) {
  const std::optional<int64_t> configured = core_->player(0).attributes.n_sample;
  if (!options.target.has_value() && !configured.has_value()) {
    return absl::InvalidArgumentError(
        "the number of rows to collect is not set: expected CollectOptions::target or the policy's "
        "n_sample");
  }
  const int64_t target = options.target.has_value() ? *options.target : *configured;
  if (target < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked to collect ", target, " rows, expected at least 1"));
  }
  const int env_num = core_->env()->env_num();
  if (target % env_num != 0 && warned_targets_.insert(target).second) {
    LOG(WARNING) << core_->deps().name << ": " << target << " rows are not a multiple of the "
                 << env_num << " envs: each collect "
                 << (options.drop_extra ? "drops the rows that are too many"
                                        : "returns more rows than that");
  }
  return target;
}

absl::Status RowCollection::Gather(absl::Span<const int> wanted, int64_t target,
                                   const CollectOptions& options) {
  for (int i = 0; i < core_->player_num(); ++i) {
    TrajBuffer& traj = *core_->player(i).traj;
    DING_RETURN_IF_ERROR(
        traj.Reserve(std::max<int64_t>(0, target - traj.ready_rows()) + core_->env()->env_num()));
  }
  int waits = 0;
  while (ReadyRows(wanted) < target) {
    const ReadyObs ready = core_->env()->ready_obs();
    if (ready.env_ids.empty() && !core_->waiting()) {
      DING_RETURN_IF_ERROR(WaitForEnv(
          *core_->env(), [](int) { return true; }, &waits));
    } else {
      waits = 0;
    }
    DING_RETURN_IF_ERROR(core_->StepEnvs(ready, options).status());
  }
  return absl::OkStatus();
}

int64_t RowCollection::ReadyRows(absl::Span<const int> wanted) const {
  int64_t rows = std::numeric_limits<int64_t>::max();
  for (const int player : wanted) {
    rows = std::min(rows, core_->player(player).traj->ready_rows());
  }
  return rows;
}

}  // namespace ding
