// The example of docs/replay_buffer.md.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Three steps of env 7, beginning with step `first_step`.
absl::StatusOr<SegmentBatch> ThreeSteps(int64_t first_step, SegmentEnd end) {
  const FieldSpec obs = Box("obs", {2});
  DING_ASSIGN_OR_RETURN(const SpecPtr row_spec,
                        MakeSpec({obs, Discrete("action", 2), Scalar("reward", DType::kFloat32)}));
  DING_ASSIGN_OR_RETURN(const SpecPtr obs_spec, MakeSpec({obs}));
  DING_ASSIGN_OR_RETURN(BatchBuilder rows, BatchBuilder::Create(row_spec, 3));
  DING_ASSIGN_OR_RETURN(BatchBuilder final_obs, BatchBuilder::Create(obs_spec, 1));
  for (int i = 0; i < 3; ++i) {
    rows.column<float>(0)[2 * i] = static_cast<float>(first_step + i);
    rows.column<float>(0)[2 * i + 1] = 0;
    rows.column<int64_t>(1)[i] = i % 2;
    rows.column<float>(2)[i] = 1;
  }
  final_obs.column<float>(0)[0] = static_cast<float>(first_step + 3);
  final_obs.column<float>(0)[1] = 0;

  SegmentBatch data;
  data.rows = std::move(rows).Seal(3);
  data.final_obs = std::move(final_obs).Seal(1);
  data.segments = {{/*stream=*/7, first_step, /*begin=*/0, /*length=*/3, end}};
  return data;
}

absl::Status Use(const std::string& path) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = 20000;
  options.nstep = 3;
  options.gamma = 0.97;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<NaiveReplayBuffer> buffer,
                        NaiveReplayBuffer::Create(options));

  // The second push continues the first: its first observation is the first's last next_obs.
  DING_ASSIGN_OR_RETURN(const SegmentBatch first, ThreeSteps(0, SegmentEnd::kCut));
  DING_ASSIGN_OR_RETURN(const SegmentBatch second, ThreeSteps(3, SegmentEnd::kTruncated));
  DING_RETURN_IF_ERROR(buffer->Push(first, /*cur_collector_envstep=*/3));
  DING_RETURN_IF_ERROR(buffer->Push(second, /*cur_collector_envstep=*/6));

  DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(/*size=*/4, /*cur_learner_iter=*/0));
  const absl::Span<const float> next_obs = batch.column<float>("next_obs");  // [4, 2]
  const absl::Span<const float> reward = batch.column<float>(kColumnReward);
  const absl::Span<const float> discount = batch.column<float>(kColumnDiscount);
  for (int i = 0; i < 4; ++i) {
    const float value = next_obs[2 * i];  // Stands for V(next_obs).
    const float target = reward[i] + discount[i] * value;
    if (!(target > 0)) return absl::InternalError("a target is not positive");
  }
  return SaveData(*buffer, path);
}

TEST(ReplayBufferExample, Works) {
  const std::string path = JoinPath(testing::TempDir(), "buffer.safetensors");
  EXPECT_THAT(Use(path), IsOk());
  EXPECT_TRUE(PathExists(path));
}

}  // namespace
}  // namespace ding
