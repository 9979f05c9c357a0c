#include "ding_worker/collector/core/collect_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"

namespace ding {

absl::StatusOr<Collected> RowCollection::Collect(absl::Span<const int> wanted,
                                                 const CollectOptions& options) {
  const Timer timer(core_->deps().clock);
  absl::StatusOr<std::vector<SegmentBatch>> data =
      CallUser("the env manager", [&] { return TryCollect(wanted, options); });
  std::vector<CollectedEpisode> episodes = core_->TakeFinishedEpisodes(options.record_episodes);
  if (!data.ok()) return Annotate(data.status(), core_->deps().name);
  for (const int player : wanted) {
    DING_RETURN_IF_ERROR(
        Annotate(core_->MakeTrainSamples(player, &(*data)[player]), core_->deps().name));
  }
  core_->FinishCollect(options, timer.Seconds());
  return Collected{*std::move(data), std::move(episodes)};
}

absl::StatusOr<std::vector<SegmentBatch>> RowCollection::TryCollect(absl::Span<const int> wanted,
                                                                    const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(const int64_t target, Target(options));
  DING_RETURN_IF_ERROR(core_->PrepareLevelSeeds(options.level_seeds));
  // Samples of several rows need more room; the last collect tells how much.
  DING_RETURN_IF_ERROR(core_->Reserve(SamplesAreRows() ? target : std::max(target, most_rows_)));
  most_rows_ = 0;
  while (ReadySamples(wanted) < target) {
    DING_RETURN_IF_ERROR(core_->StepReadyEnvs(options).status());
  }
  const ReadyObs now = core_->env()->ready_obs();
  std::vector<SegmentBatch> data(static_cast<size_t>(core_->player_num()));
  for (int i = 0; i < core_->player_num(); ++i) {
    const bool is_wanted = std::binary_search(wanted.begin(), wanted.end(), i);
    most_rows_ = std::max(most_rows_, core_->ready_rows(i));
    // A row of a longer sample is never extra: it may be the first one of a sample that the next collect
    // completes.
    const bool drop_extra = options.drop_extra && core_->attributes(i).unroll_len == 1;
    const int64_t rows = !is_wanted ? 0 : drop_extra ? target : core_->ready_rows(i);
    DING_ASSIGN_OR_RETURN(data[i], core_->Take(i, rows, now));
    core_->DropHeldRowsIfOnPolicy(i);
  }
  return data;
}

absl::StatusOr<int64_t> RowCollection::Target(const CollectOptions& options) {
  const std::optional<int64_t> configured = core_->attributes(0).n_sample;
  if (!options.target.has_value() && !configured.has_value()) {
    return absl::InvalidArgumentError(
        "the number of samples to collect is not set: expected CollectOptions::target or the "
        "policy's "
        "n_sample");
  }
  const int64_t target = options.target.has_value() ? *options.target : *configured;
  if (target < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked to collect ", target, " samples, expected at least 1"));
  }
  DING_RETURN_IF_ERROR(CheckCollectTarget(target));
  const int env_num = core_->env()->env_num();
  if (target % env_num != 0 && SamplesAreRows() && warned_targets_.insert(target).second) {
    DING_LOG(WARNING) << core_->deps().name << ": " << target << " rows are not a multiple of the "
                      << env_num << " envs: each collect "
                      << (options.drop_extra ? "drops the rows that are too many"
                                             : "returns more rows than that");
  }
  return target;
}

int64_t RowCollection::ReadySamples(absl::Span<const int> wanted) const {
  // A player that ended before its game has fewer rows than the others.
  int64_t samples = 0;
  for (const int player : wanted) samples = std::max(samples, core_->ready_samples(player));
  return samples;
}

bool RowCollection::SamplesAreRows() const {
  for (int i = 0; i < core_->player_num(); ++i) {
    if (core_->attributes(i).unroll_len > 1) return false;
  }
  return true;
}

}  // namespace ding
