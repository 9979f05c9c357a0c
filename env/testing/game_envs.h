// Games for tests: players that are out early (KnockoutEnv), players with different spaces
// (PursuitEnv).
//
// Threads: as Env.
#ifndef DING_WORKER_ENV_TESTING_GAME_ENVS_H_
#define DING_WORKER_ENV_TESTING_GAME_ENVS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

// A game whose three players end at different times. Their roles are 0, 1 and 2, by the seed:
//
//     role 0   plays all 6 steps, and is truncated with the game
//     role 1   is out in step 1 with the reward -1 (terminated)
//     role 2   is out in step 3 (truncated)
//
// A player sees the step, its role and whether it is in the game; its mask allows both actions up
// to its last observation, and none after that. In role 1 the last observation allows no action,
// either. A player in the game gets 0.5 * action per step, besides the -1 of role 1.
class KnockoutEnv : public Env {
 public:
  static constexpr int kPlayers = 3;
  static constexpr int64_t kSteps = 6;
  static constexpr int64_t kSteps1 = 1;  // of role 1
  static constexpr int64_t kSteps2 = 3;

  // `paid_after_the_end`: the reward of players that are out. Anything but 0 is an error of the
  // env.
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

// An asymmetric game: on a line from 0 to 9, a pursuer (player 0) tries to reach an evader (player
// 1) within 6 steps.
//
//              sees                                        does
//   pursuer    obs: its place, the evader's, the step      action: how far it goes, in [-2, 2]
//   evader     obs/distance: how far the pursuer is        action: -1, 0 or +1 as 0, 1, 2
//              obs/action_mask: no step beyond the ends
//
// The pursuer gets 1 at the end if it is within 0.5 of the evader, else -0.1 per step; the evader
// gets -1, else 0.1. The game terminates when the evader is reached and is truncated after 6 steps.
class PursuitEnv : public Env {
 public:
  PursuitEnv() : spec_(*GameSpec({Pursuer(), Evader()})) {}

  static absl::StatusOr<std::unique_ptr<Env>> Create() { return std::make_unique<PursuitEnv>(); }

  static EnvSpec Pursuer() {
    EnvSpec spec;
    spec.name = "Pursuit";
    spec.observation = *MakeSpec({Box("obs", {3})});
    spec.action = *MakeSpec({Box("action", {1}, {-2}, {2})});
    spec.reward_low = -1;
    spec.reward_high = 1;
    spec.max_episode_steps = 6;
    return spec;
  }
  static EnvSpec Evader() {
    FieldSpec mask = Scalar(kActionMaskField, DType::kBool);
    mask.shape = {3};
    EnvSpec spec = Pursuer();
    spec.observation = *MakeSpec({Box("obs/distance", {1}), mask});
    spec.action = *MakeSpec({Discrete("action", 3)});
    return spec;
  }

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    Rng rng(start.seed, "pursuit");
    pursuer_ = static_cast<float>(rng.Uniform(0, 9));
    evader_ = static_cast<int64_t>(rng.UniformInt(10));
    step_ = 0;
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++step_;
    pursuer_ = std::clamp(pursuer_ + action.field<float>(0)[0], 0.0f, 9.0f);
    evader_ += action.scalar<int64_t>(1) - 1;
    Show(obs);
    result->terminated = std::abs(Distance()) <= 0.5f;
    result->truncated = step_ == 6;
    result->reward = result->terminated ? 1.0f : -0.1f;
    result->other_rewards[0] = -result->reward;
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteDouble("pursuer", pursuer_));
    DING_RETURN_IF_ERROR(writer->WriteInt("evader", evader_));
    return writer->WriteInt("step", step_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const double pursuer, reader->ReadDouble("pursuer"));
    pursuer_ = static_cast<float>(pursuer);
    DING_ASSIGN_OR_RETURN(evader_, reader->ReadInt("evader"));
    DING_ASSIGN_OR_RETURN(step_, reader->ReadInt("step"));
    return absl::OkStatus();
  }

 private:
  float Distance() const { return pursuer_ - static_cast<float>(evader_); }
  void Show(const RowRef& obs) const {
    obs.field<float>(0)[0] = pursuer_;
    obs.field<float>(0)[1] = static_cast<float>(evader_);
    obs.field<float>(0)[2] = static_cast<float>(step_);
    obs.field<float>(1)[0] = Distance();
    obs.field<uint8_t>(2)[0] = evader_ > 0 ? 1 : 0;
    obs.field<uint8_t>(2)[1] = 1;
    obs.field<uint8_t>(2)[2] = evader_ < 9 ? 1 : 0;
  }

  const EnvSpec spec_;
  float pursuer_ = 0;
  int64_t evader_ = 0;
  int64_t step_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_GAME_ENVS_H_
