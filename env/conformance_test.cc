// Runs EnvConformance on envs of all kinds. conformance_test runs correct envs, which pass. The
// program conformance_wrong_envs runs envs with one mistake each, and conformance_messages_test
// checks that each fails with a message that names the mistake.
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

enum class Wrong {
  kNothing,
  kBadMaskSpec,
  kSkipsElement,
  kWritesBehind,
  kOutOfBounds,
  kNan,
  kBadBool,
  kBadCategory,
  kNothingLegal,
  kRemembers,
  kEndless,
  kReward,
  kResizesRewards,
  kThrows,
  kWrongType,
  kForgetsToSave,
};

constexpr int64_t kLength = 6;

// The spec of one player: an image, numbers and categories to see, two numbers to choose.
absl::StatusOr<EnvSpec> PlayerOf(Wrong wrong) {
  FieldSpec image = Scalar("obs/image", DType::kUint8);
  image.shape = {1, 2, 2};
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {wrong == Wrong::kBadMaskSpec ? 4 : 5};
  EnvSpec spec;
  spec.name = "All kinds";
  DING_ASSIGN_OR_RETURN(spec.observation,
                        MakeSpec({image, Box("obs/numbers", {2}, {-1}, {1}),
                                  MultiDiscrete("obs/categories", {4, kLength + 1}), mask}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({MultiDiscrete("action", {2, 3})}));
  spec.reward_low = 0;
  spec.reward_high = 3;
  spec.max_episode_steps = kLength;
  return spec;
}

class AllKinds : public Env {
 public:
  AllKinds(EnvSpec spec, Wrong wrong) : spec_(std::move(spec)), wrong_(wrong) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    if (wrong_ != Wrong::kRemembers) memory_ = 0;
    memory_ += Rng(start.seed, "test/start").Uniform() / 4;
    steps_ = 0;
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    if (wrong_ == Wrong::kThrows) throw std::runtime_error("no more steps");
    for (int player = 0; player < spec_.players; ++player) {
      const absl::Span<const int64_t> numbers = action.field<int64_t>(player);
      // The mask allows one number of the first element, and all but one of the second.
      if (numbers[0] != steps_ % 2 || numbers[1] == steps_ % 3 || numbers[1] > 2) {
        return absl::InternalError("an action that the mask forbids");
      }
      const auto reward = static_cast<float>(numbers[0] + numbers[1]);
      (player == 0 ? result->reward : result->other_rewards[0]) = reward;
      memory_ += 0.01 * static_cast<double>(numbers[1]);
    }
    ++steps_;
    Show(obs);
    if (wrong_ == Wrong::kReward) result->other_rewards.back() = 4;
    if (wrong_ == Wrong::kResizesRewards) result->other_rewards.clear();
    result->truncated = wrong_ != Wrong::kEndless && steps_ == kLength;
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("steps", steps_));
    return writer->WriteDouble("memory", wrong_ == Wrong::kForgetsToSave ? 0 : memory_);
  }

  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(steps_, reader->ReadInt("steps"));
    DING_ASSIGN_OR_RETURN(memory_, reader->ReadDouble("memory"));
    return absl::OkStatus();
  }

 private:
  void Show(const RowRef& obs) const {
    const int fields = spec_.observation->size() / spec_.players;
    for (int player = 0; player < spec_.players; ++player) ShowTo(player * fields, obs);
  }

  void ShowTo(int first_field, const RowRef& obs) const {
    const bool stepped = steps_ > 0;
    for (uint8_t& pixel : obs.field<uint8_t>(first_field))
      pixel = static_cast<uint8_t>(255 - steps_);
    const absl::Span<float> numbers = obs.field<float>(first_field + 1);
    numbers[0] = static_cast<float>(memory_);
    if (wrong_ != Wrong::kSkipsElement || !stepped) numbers[1] = 1;
    if (wrong_ == Wrong::kWritesBehind) *(numbers.data() + numbers.size()) = 0;
    if (wrong_ == Wrong::kOutOfBounds) numbers[1] = 1.5;
    if (wrong_ == Wrong::kNan) numbers[1] = std::numeric_limits<float>::quiet_NaN();
    const absl::Span<int64_t> categories = obs.field<int64_t>(first_field + 2);
    categories[0] = wrong_ == Wrong::kBadCategory ? 4 : 3;
    categories[1] = steps_ % (kLength + 1);
    if (wrong_ == Wrong::kWrongType) obs.field<float>(first_field + 2)[0] = 0;
    const absl::Span<uint8_t> mask = obs.field<uint8_t>(first_field + 3);
    for (int64_t i = 0; i < 2; ++i) mask[i] = i == steps_ % 2;
    for (int64_t i = 0; i < 3; ++i) mask[2 + i] = i != steps_ % 3;
    if (wrong_ == Wrong::kBadBool) mask[0] = 2;
    if (wrong_ == Wrong::kNothingLegal) mask[0] = mask[1] = 0;
  }

  const EnvSpec spec_;
  const Wrong wrong_;
  int64_t steps_ = 0;
  double memory_ = 0;
};

EnvConformanceCase Case(const std::string& name, Wrong wrong, int players = 1) {
  const auto make = [wrong, players]() -> absl::StatusOr<std::unique_ptr<Env>> {
    DING_ASSIGN_OR_RETURN(EnvSpec spec, PlayerOf(wrong));
    if (players > 1) {
      DING_ASSIGN_OR_RETURN(spec, GameSpec(spec, players));
    }
    return std::make_unique<AllKinds>(std::move(spec), wrong);
  };
  return {name, make, /*max_steps=*/20};
}

#ifdef DING_WRONG_ENVS
INSTANTIATE_TEST_SUITE_P(
    Wrong, EnvConformance,
    testing::Values(
        Case("BadMaskSpec", Wrong::kBadMaskSpec), Case("SkipsElement", Wrong::kSkipsElement),
        Case("WritesBehind", Wrong::kWritesBehind), Case("OutOfBounds", Wrong::kOutOfBounds),
        Case("Nan", Wrong::kNan), Case("BadBool", Wrong::kBadBool),
        Case("BadCategory", Wrong::kBadCategory), Case("NothingLegal", Wrong::kNothingLegal, 2),
        Case("Remembers", Wrong::kRemembers), Case("Endless", Wrong::kEndless),
        Case("Reward", Wrong::kReward, 2), Case("ResizesRewards", Wrong::kResizesRewards, 2),
        Case("Throws", Wrong::kThrows), Case("WrongType", Wrong::kWrongType),
        Case("ForgetsToSave", Wrong::kForgetsToSave)),
    EnvConformanceName);
#else
INSTANTIATE_TEST_SUITE_P(Right, EnvConformance,
                         testing::Values(Case("one_player", Wrong::kNothing),
                                         Case("game", Wrong::kNothing, 2)),
                         EnvConformanceName);
#endif

}  // namespace
}  // namespace ding
