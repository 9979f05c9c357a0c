#include "ding_worker/worker/parallel_run/expected_data.h"

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

}  // namespace

absl::StatusOr<CollectedLayout> LayoutOfCollected(const EnvSpec& player, CollectMode* policy) {
  DING_ASSIGN_OR_RETURN(
      const TrajLayout layout,
      TrajLayout::Create(player.observation, policy->output_spec(),
                         /*with_level_seed=*/false, player.reward_shape, player.info));
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

}  // namespace ding
