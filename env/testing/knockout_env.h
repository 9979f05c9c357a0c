// A game for tests whose three players end at different times. Their roles are 0, 1 and 2, by the seed:
//
//     role 0   plays all 6 steps, and is truncated with the game
//     role 1   is out in step 1 with the reward -1 (terminated)
//     role 2   is out in step 3 (truncated)
//
// A player sees the step, its role and whether it is in the game; its mask allows both actions up to its last
// observation, which allows none to role 1, and none after that. A player in the game gets 0.5 * action per step, besides the -1 of role 1.
//
// Threads: as Env.
#ifndef DING_WORKER_ENV_TESTING_KNOCKOUT_ENV_H_
#define DING_WORKER_ENV_TESTING_KNOCKOUT_ENV_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/game_spec.h"

namespace ding {

class KnockoutEnv : public Env {
 public:
  static constexpr int kPlayers = 3;
  static constexpr int64_t kSteps = 6;
  static constexpr int64_t kSteps1 = 1;  // of role 1
  static constexpr int64_t kSteps2 = 3;

  // `paid_after_the_end`: what players that are out get, which is an error of the env unless it is 0.
  explicit KnockoutEnv(float paid_after_the_end = 0)
      : spec_(*GameSpec(Player(), kPlayers)), paid_after_the_end_(paid_after_the_end) {}

  static absl::StatusOr<std::unique_ptr<Env>> Create() { return std::make_unique<KnockoutEnv>(); }

  static EnvSpec Player() {
    FieldSpec mask = Scalar(kActionMaskField, DType::kBool);
    mask.shape = {2};
    EnvSpec spec;
    spec.name = "Knockout";
    spec.observation = *MakeSpec({Box("obs/place", {3}, {0}, {6}), mask});
    spec.action = *MakeSpec({Discrete("action", 2)});
    spec.max_episode_steps = kSteps;
    return spec;
  }
  static int64_t StepsOf(int64_t role) {
    return role == 0 ? kSteps : role == 1 ? kSteps1 : kSteps2;
  }

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    first_role_ = static_cast<int64_t>(start.seed % kPlayers);
    step_ = 0;
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++step_;
    for (int player = 0; player < kPlayers; ++player) {
      const int64_t role = RoleOf(player);
      float reward = paid_after_the_end_;
      if (step_ <= StepsOf(role)) {
        reward = 0.5f * static_cast<float>(action.scalar<int64_t>(player));
        if (role == 1) reward = -1;
        if (step_ == StepsOf(role)) {
          result->player_ends[static_cast<size_t>(player)] =
              role == 1 ? PlayerEnd::kTerminated : PlayerEnd::kTruncated;
        }
      }
      (player == 0 ? result->reward : result->other_rewards[static_cast<size_t>(player - 1)]) =
          reward;
    }
    Show(obs);
    return absl::OkStatus();  // The game is over when all are out.
  }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("first_role", first_role_));
    return writer->WriteInt("step", step_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(first_role_, reader->ReadInt("first_role"));
    DING_ASSIGN_OR_RETURN(step_, reader->ReadInt("step"));
    return absl::OkStatus();
  }

 private:
  int64_t RoleOf(int player) const { return (first_role_ + player) % kPlayers; }
  void Show(const RowRef& obs) const {
    for (int player = 0; player < kPlayers; ++player) {
      const int64_t role = RoleOf(player);
      const bool plays = step_ < StepsOf(role);
      const bool acts = plays || (step_ == StepsOf(role) && role != 1);
      obs.field<float>(2 * player)[0] = static_cast<float>(step_);
      obs.field<float>(2 * player)[1] = static_cast<float>(role);
      obs.field<float>(2 * player)[2] = plays ? 1 : 0;
      for (uint8_t& legal : obs.field<uint8_t>(2 * player + 1)) legal = acts ? 1 : 0;
    }
  }

  const EnvSpec spec_;
  const float paid_after_the_end_;
  int64_t first_role_ = 0;
  int64_t step_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_KNOCKOUT_ENV_H_
