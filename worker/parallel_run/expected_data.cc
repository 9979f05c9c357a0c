#include "ding_worker/worker/parallel_run/expected_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

absl::StatusOr<Batch> RowOfZeros(const SpecPtr& spec) {
  DING_ASSIGN_OR_RETURN(BatchBuilder row, BatchBuilder::Create(spec, 1));
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(row.view().raw_column(i), 0, static_cast<size_t>(spec->row_bytes(i)));
  }
  return std::move(row).Seal(1);
}

// The bound of a sum of 1 to `steps` rewards; `steps` 0 stands for any number of them. `away` says
// whether more rewards move the sum away from 0.
double BoundOfSum(double reward, int64_t steps, bool away) {
  if (!away) return reward;
  return steps > 0 ? reward * static_cast<double>(steps)
                   : std::copysign(std::numeric_limits<double>::infinity(), reward);
}

}  // namespace

absl::StatusOr<CollectedLayout> LayoutOfCollected(const EnvSpec& player, CollectMode* policy) {
  DING_ASSIGN_OR_RETURN(const TrajLayout layout,
                        TrajLayout::Create(player.observation, policy->output_spec(),
                                           /*with_level_seed=*/false, player.reward_shape));
  SegmentBatch sample;
  DING_ASSIGN_OR_RETURN(sample.rows, RowOfZeros(layout.row));
  DING_ASSIGN_OR_RETURN(sample.final_obs, RowOfZeros(layout.observation));
  sample.segments = {{0, 0, 0, 1, SegmentEnd::kTerminated}};
  const absl::Status made = CallPolicy([&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(sample, policy->GetTrainSample(std::move(sample)));
    return absl::OkStatus();
  });
  if (!made.ok()) {
    DING_LOG(WARNING) << "the layout of the rows that collectors send is not known: "
                      << made.message() << "; it is taken from the first rows that arrive";
    return CollectedLayout();
  }
  return CollectedLayout{sample.rows.spec_ptr(), sample.final_obs.spec_ptr()};
}

ReturnBounds BoundsOfReturns(const EnvSpec& env) {
  ReturnBounds bounds;
  // The return is the sum of the components, if there are several; the bounds are those of each.
  const auto components = static_cast<double>(std::max<int64_t>(1, env.reward_components()));
  bounds.low =
      BoundOfSum(components * env.reward_low, env.max_episode_steps, /*away=*/env.reward_low < 0);
  bounds.high =
      BoundOfSum(components * env.reward_high, env.max_episode_steps, /*away=*/env.reward_high > 0);
  return bounds;
}

ReturnBounds EitherOf(const ReturnBounds& a, const ReturnBounds& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

}  // namespace ding
