// The example of docs/reference/data.md.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

// [example]
// Writes an episode of three rows into a block of a pool.
absl::StatusOr<Batch> MakeEpisode(BlockPool* pool) {
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, pool->Allocate(3));
  for (int64_t t = 0; t < 3; ++t) {
    const RowRef row = builder.view().row(t);
    row.field<float>(0)[0] = static_cast<float>(t);  // obs
    row.field<int64_t>(1)[0] = t % 2;                // action
    row.field<float>(2)[0] = 1;                      // reward
  }
  return std::move(builder).Seal(3);
}

// A time limit ended the episode, so the returns include the value of the observation after it.
std::vector<float> Returns(const Batch& episode, float value_after) {
  RunColumns run;
  run.reward = episode.column<float>("reward");
  run.final_value = value_after;
  run.end = SegmentEnd::kTruncated;
  std::vector<float> returns(run.reward.size());
  ComputeDiscountedReturns(run, /*gamma=*/0.5, absl::MakeSpan(returns));
  return returns;
}

// Encodes an episode for another process and decodes it; columns are sent as they are in memory.
absl::StatusOr<Batch> SendAndReceive(const Batch& episode, BlockPool* pool) {
  const std::string bytes = EncodedBatch(episode).ToString();
  return DecodeBatch(bytes, pool);
}

// Saves an episode as part of a checkpoint and loads it.
absl::StatusOr<Tensor> SaveAndLoad(const Batch& episode, const std::string& path) {
  DING_RETURN_IF_ERROR(WriteCheckpoint(path, {"example", {{"env_step", "3"}}},
                                       {{"episode", [&episode](StateWriter* writer) {
                                           return writer->WriteTensor("obs", episode.tensor(0));
                                         }}}));
  DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, CheckpointReader::Open(path));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> state, checkpoint.Component("episode"));
  return state->ReadTensor("obs");
}
// [/example]

TEST(DataExample, Runs) {
  BlockPool pool(
      MakeSpec({Box("obs", {1}), Discrete("action", 2), Scalar("reward", DType::kFloat32)})
          .value());
  DING_ASSERT_OK_AND_ASSIGN(const Batch episode, MakeEpisode(&pool));
  EXPECT_THAT(Returns(episode, 8), ElementsAre(FloatEq(2.75f), FloatEq(3.5f), FloatEq(5)));
  DING_ASSERT_OK_AND_ASSIGN(const Batch received, SendAndReceive(episode, &pool));
  EXPECT_THAT(received.column<int64_t>("action"), ElementsAre(0, 1, 0));
  const std::string path = JoinPath(FreshTestFolder(), "checkpoint");
  DING_ASSERT_OK_AND_ASSIGN(const Tensor loaded, SaveAndLoad(episode, path));
  EXPECT_TRUE(BitwiseEqual(loaded, episode.tensor(0)));
}

}  // namespace
}  // namespace ding
