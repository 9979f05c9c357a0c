// The examples of docs/reference/replay_buffer.md.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"
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

// Twenty cycles of prioritized replay: draw, learn, give the rows new priorities.
absl::Status UsePrioritized() {
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = 20000;
  options.alpha = 0.6;
  options.beta = 0.4;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<AdvancedReplayBuffer> buffer,
                        AdvancedReplayBuffer::Create(options));
  DING_ASSIGN_OR_RETURN(const SegmentBatch steps, ThreeSteps(0, SegmentEnd::kTerminated));
  DING_RETURN_IF_ERROR(buffer->Push(steps, /*cur_collector_envstep=*/3));
  for (int64_t train_iter = 0; train_iter < 20; ++train_iter) {
    SampleOptions replace;
    replace.replace = true;  // The batch is larger than the buffer.
    DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(/*size=*/8, train_iter, replace));
    // The learner multiplies the loss of each row by its weight.
    const absl::Span<const float> weight = batch.column<float>(kColumnWeight);
    const absl::Span<const int64_t> ids = batch.column<int64_t>(kColumnReplayUniqueId);
    const absl::Span<const int64_t> slots = batch.column<int64_t>(kColumnReplayBufferIdx);
    PriorityInfo info;
    for (int i = 0; i < 8; ++i) {
      const float td_error = ids[i] == 2 ? 4 : 0.5;  // Stands for the TD error of the learner.
      info.priority.push_back(td_error);
      if (!(weight[i] > 0 && weight[i] <= 1)) return absl::InternalError("a weight is wrong");
    }
    info.replay_unique_id.assign(ids.begin(), ids.end());
    info.replay_buffer_idx.assign(slots.begin(), slots.end());
    DING_RETURN_IF_ERROR(buffer->Update(info));
  }
  if (buffer->max_priority() != 4) return absl::InternalError("row 2 was never drawn");
  return absl::OkStatus();
}

// Sequences of three steps. The first step warms up the recurrent state.
absl::Status UseSequences() {
  SequenceReplayBuffer::Options options;
  options.capacity_rows = 20000;
  options.unroll_len = 3;
  options.burn_in = 1;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SequenceReplayBuffer> buffer,
                        SequenceReplayBuffer::Create(options));
  DING_ASSIGN_OR_RETURN(const SegmentBatch first, ThreeSteps(0, SegmentEnd::kCut));
  DING_ASSIGN_OR_RETURN(const SegmentBatch second, ThreeSteps(3, SegmentEnd::kTruncated));
  DING_RETURN_IF_ERROR(buffer->Push(first, /*cur_collector_envstep=*/3));
  DING_RETURN_IF_ERROR(buffer->Push(second, /*cur_collector_envstep=*/6));

  // Steps 0-2, 1-3, 2-4 and 3-5 are sequences: rows of both pushes follow each other.
  DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(/*size=*/4, /*cur_learner_iter=*/0));
  const absl::Span<const float> obs = batch.column<float>("obs");  // [4 * 3, 2], or [4, 3, 2]
  const absl::Span<const uint8_t> burn_in = batch.column<uint8_t>(kColumnBurnIn);  // [4, 3]
  for (int b = 0; b < 4; ++b) {
    for (int t = 0; t < 3; ++t) {
      const int row = b * 3 + t;
      if (obs[2 * row] != obs[2 * b * 3] + static_cast<float>(t)) {
        return absl::InternalError("steps do not follow each other");
      }
      if (burn_in[row] != (t == 0)) return absl::InternalError("burn_in is wrong");
    }
  }
  return absl::OkStatus();
}

// Sequences of four steps that go on with the next episode.
absl::Status UseSequencesAcrossEpisodes() {
  SequenceReplayBuffer::Options options;
  options.capacity_rows = 20000;
  options.unroll_len = 4;
  options.cross_episodes = true;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SequenceReplayBuffer> buffer,
                        SequenceReplayBuffer::Create(options));
  DING_ASSIGN_OR_RETURN(const SegmentBatch first, ThreeSteps(0, SegmentEnd::kTerminated));
  DING_ASSIGN_OR_RETURN(const SegmentBatch second, ThreeSteps(3, SegmentEnd::kTerminated));
  DING_RETURN_IF_ERROR(buffer->Push(first, /*cur_collector_envstep=*/3));
  DING_RETURN_IF_ERROR(buffer->Push(second, /*cur_collector_envstep=*/6));

  // The sequences are steps 0-3, 1-4 and 2-5.
  DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(/*size=*/3, /*cur_learner_iter=*/0));
  const absl::Span<const float> obs = batch.column<float>("obs");                    // [3 * 4, 2]
  const absl::Span<const uint8_t> is_first = batch.column<uint8_t>(kColumnIsFirst);  // [3, 4]
  float state = 0;  // Stands for the recurrent state: steps since it was reset.
  for (int row = 0; row < 3 * 4; ++row) {
    if (row % 4 == 0) state = obs[2 * row];  // Stands for the stored recurrent state.
    if (is_first[row] != 0) state = 0;
    const float step = obs[2 * row];
    if (state != (step < 3 ? step : step - 3)) return absl::InternalError("is_first is wrong");
    ++state;
  }
  return absl::OkStatus();
}

// Draws recent transitions more often: the k-th newest in proportion to 0.999^k, perhaps more than
// once.
class RecencySelector : public ISelector {
 public:
  absl::Status Select(const Candidates& from, int64_t newest, bool /*replace*/, Rng* rng,
                      absl::Span<int64_t> ranks) override {
    for (int64_t& rank : ranks) {
      const double age = std::floor(std::log1p(-rng->Uniform()) / std::log(0.999));
      rank = from.size() - 1 - static_cast<int64_t>(age) % newest;  // rank 0 is the oldest
    }
    return absl::OkStatus();
  }
};

absl::Status UseRecency() {
  NaiveReplayBuffer::Options options;
  options.selector = std::make_shared<RecencySelector>();
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<NaiveReplayBuffer> buffer,
                        NaiveReplayBuffer::Create(options));
  DING_ASSIGN_OR_RETURN(const SegmentBatch data, ThreeSteps(0, SegmentEnd::kCut));
  DING_RETURN_IF_ERROR(buffer->Push(data, /*cur_collector_envstep=*/3));
  return buffer->Sample(/*size=*/2, /*cur_learner_iter=*/0).status();
}

TEST(ReplayBufferExample, AUserSelectorWorks) { EXPECT_THAT(UseRecency(), IsOk()); }

TEST(ReplayBufferExample, PrioritizedWorks) { EXPECT_THAT(UsePrioritized(), IsOk()); }

TEST(ReplayBufferExample, SequencesWork) { EXPECT_THAT(UseSequences(), IsOk()); }

TEST(ReplayBufferExample, SequencesAcrossEpisodesWork) {
  EXPECT_THAT(UseSequencesAcrossEpisodes(), IsOk());
}

TEST(ReplayBufferExample, Works) {
  const std::string path = JoinPath(testing::TempDir(), "buffer.safetensors");
  EXPECT_THAT(Use(path), IsOk());
  EXPECT_TRUE(PathExists(path));
}

}  // namespace
}  // namespace ding
