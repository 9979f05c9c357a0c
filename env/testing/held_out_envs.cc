#include "ding_worker/env/testing/held_out_envs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

// An env whose state is a few numbers.
class HeldOutEnv : public Env {
 public:
  explicit HeldOutEnv(EnvSpec spec) : spec_(std::move(spec)) {}
  const EnvSpec& spec() const final { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) final {
    Rng rng(start.seed, "held_out/start");
    steps_ = 0;
    Begin(&rng);
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) final {
    result->terminated = false;
    result->reward = static_cast<float>(Move(action, &result->terminated));
    result->truncated = ++steps_ == spec_.max_episode_steps && !result->terminated;
    Show(obs);
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("steps", steps_));
    for (size_t i = 0; i < s_.size(); ++i) {
      DING_RETURN_IF_ERROR(writer->WriteDouble(absl::StrCat("s", i), s_[i]));
    }
    return absl::OkStatus();
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(steps_, reader->ReadCount("steps"));
    for (size_t i = 0; i < s_.size(); ++i) {
      DING_ASSIGN_OR_RETURN(s_[i], reader->ReadDouble(absl::StrCat("s", i)));
    }
    return absl::OkStatus();
  }

 protected:
  virtual void Begin(Rng* rng) = 0;
  // Returns the reward.
  virtual double Move(const RowView& action, bool* terminated) = 0;
  virtual void Show(const RowRef& obs) const = 0;

  static void ShowAll(std::initializer_list<double> values, const RowRef& obs) {
    std::copy(values.begin(), values.end(), obs.field<float>(0).begin());
  }

  std::array<double, 6> s_ = {};  // the state

 private:
  const EnvSpec spec_;
  int64_t steps_ = 0;
};

EnvSpec MakeEnvSpec(const std::string& name, int64_t obs, FieldSpec action, int64_t steps,
                    bool masked = false) {
  std::vector<FieldSpec> fields = {Box(masked ? "obs/place" : "obs", {obs})};
  if (masked) fields.push_back({std::string(kActionMaskField), DType::kBool, {4}, {}, {}});
  EnvSpec spec;
  spec.name = name;
  spec.observation = *MakeSpec(fields);
  spec.action = *MakeSpec({std::move(action)});
  spec.max_episode_steps = steps;
  return spec;
}

// State: x, z, their speeds, the angle and its speed. The target is the origin, and both rotors
// carry the drone at action 0. The reward of a step falls from 1 with the distance; a drone that
// leaves the square of 2 or tips over ends the episode.
class Drone final : public HeldOutEnv {
 public:
  Drone() : HeldOutEnv(MakeEnvSpec("HeldOutDrone", 6, Box("action", {2}, {-1}, {1}), 200)) {}

  // Leans towards the target, and turns towards the wanted angle.
  static std::vector<double> Control(absl::Span<const float> o) {
    const double angle = std::clamp(0.3 * o[0] + 0.4 * o[2], -0.4, 0.4);
    const double turn = 2 * (angle - o[4]) - o[5];
    const double lift = -o[1] - o[3];
    return {lift - turn, lift + turn};
  }

 private:
  void Begin(Rng* rng) override {
    s_ = {rng->Uniform(-1, 1), rng->Uniform(-1, 1), 0, 0, rng->Uniform(-0.2, 0.2), 0};
  }
  double Move(const RowView& action, bool* terminated) override {
    constexpr double kDt = 0.05;
    const double left = 1 + 0.5 * action.field<float>(0)[0];
    const double right = 1 + 0.5 * action.field<float>(0)[1];
    s_[2] += kDt * -4.9 * (left + right) * std::sin(s_[4]);
    s_[3] += kDt * (4.9 * (left + right) * std::cos(s_[4]) - 9.8);
    s_[5] += kDt * 6 * (right - left);
    for (const int i : {0, 1}) s_[i] += kDt * s_[i + 2];
    s_[4] += kDt * s_[5];
    *terminated = std::abs(s_[0]) > 2 || std::abs(s_[1]) > 2 || std::abs(s_[4]) > 1.2;
    return *terminated ? 0 : 1 / (1 + 2 * std::hypot(s_[0], s_[1]));
  }
  void Show(const RowRef& obs) const override {
    ShowAll({s_[0], s_[1], s_[2], s_[3], s_[4], s_[5]}, obs);
  }
};

// State: the two angles, their speeds, and the target. Actions are torques on both joints.
class Reacher final : public HeldOutEnv {
 public:
  Reacher() : HeldOutEnv(MakeEnvSpec("HeldOutReacher", 10, Box("action", {2}, {-1}, {1}), 60)) {}

  // Pulls the hand to the target by the transposed Jacobian.
  static std::vector<double> Control(absl::Span<const float> o) {
    const double x = o[6] - o[8];  // of the hand
    const double y = o[7] - o[9];
    const double elbow_x = 0.5 * o[0];
    const double elbow_y = 0.5 * o[1];
    const auto pull = [&](double from_x, double from_y) {
      return 8 * (-(y - from_y) * o[8] + (x - from_x) * o[9]);
    };
    return {pull(0, 0) - 0.5 * o[4], pull(elbow_x, elbow_y) - 0.5 * o[5]};
  }

 private:
  void Begin(Rng* rng) override {
    const double angle = rng->Uniform(-3.14, 3.14);
    const double radius = rng->Uniform(0.3, 0.9);
    s_ = {rng->Uniform(-3.14, 3.14), rng->Uniform(-2, 2),     0, 0,
          radius * std::cos(angle),  radius * std::sin(angle)};
  }
  double Move(const RowView& action, bool* /*terminated*/) override {
    constexpr double kDt = 0.05;
    for (const int i : {0, 1}) {
      s_[i + 2] += kDt * (20 * action.field<float>(0)[i] - 3 * s_[i + 2]);
      s_[i] += kDt * s_[i + 2];
    }
    return -std::hypot(s_[4] - X(), s_[5] - Y());
  }
  void Show(const RowRef& obs) const override {
    ShowAll({std::cos(s_[0]), std::sin(s_[0]), std::cos(s_[1]), std::sin(s_[1]), s_[2], s_[3],
             s_[4], s_[5], s_[4] - X(), s_[5] - Y()},
            obs);
  }
  double X() const { return 0.5 * (std::cos(s_[0]) + std::cos(s_[0] + s_[1])); }
  double Y() const { return 0.5 * (std::sin(s_[0]) + std::sin(s_[0] + s_[1])); }
};

// 0: right, 1: up, 2: left, 3: down.
constexpr int kDx[] = {1, 0, -1, 0};
constexpr int kDy[] = {0, 1, 0, -1};

// State: the cell, and the goal's. The action mask has the steps that no wall forbids.
class Maze final : public HeldOutEnv {
 public:
  Maze() : HeldOutEnv(MakeEnvSpec("HeldOutMaze", 4, Discrete("action", 4), 40, true)) {}

  // The first step of a shortest way.
  static std::vector<double> Control(absl::Span<const float> o) {
    std::array<int, 4> place;
    for (int i = 0; i < 4; ++i) place[i] = static_cast<int>(std::lround(4 * o[i]));
    int steps[kSide][kSide] = {};  // from the goal, plus 1; 0: not yet known
    steps[place[2]][place[3]] = 1;
    for (int round = 1; round < kSide * kSide; ++round) {
      for (int i = 0; i < kSide * kSide * 4; ++i) {
        const int x = i / 4 % kSide;
        const int y = i / 4 / kSide;
        if (steps[x][y] != round || !IsFree(x + kDx[i % 4], y + kDy[i % 4])) continue;
        int& next = steps[x + kDx[i % 4]][y + kDy[i % 4]];
        if (next == 0) next = round + 1;
      }
    }
    for (int i = 0; i < 4; ++i) {
      const int x = place[0] + kDx[i];
      const int y = place[1] + kDy[i];
      if (IsFree(x, y) && steps[x][y] == steps[place[0]][place[1]] - 1) return {1.0 * i};
    }
    return {0};
  }

 private:
  static constexpr int kSide = 5;
  static bool IsFree(int x, int y) {
    constexpr const char* kMap[kSide] = {".....", ".###.", ".....", ".#.##", "....."};
    return x >= 0 && x < kSide && y >= 0 && y < kSide && kMap[y][x] == '.';
  }
  void Begin(Rng* rng) override {
    do {
      for (int i = 0; i < 4; ++i) s_[i] = static_cast<double>(rng->UniformInt(kSide));
    } while (!IsFree(At(0), At(1)) || !IsFree(At(2), At(3)) || AtGoal());
  }
  double Move(const RowView& action, bool* terminated) override {
    const int64_t i = action.scalar<int64_t>(0);
    s_[0] += kDx[i];
    s_[1] += kDy[i];
    *terminated = AtGoal();
    return *terminated ? 1 : -0.02;
  }
  void Show(const RowRef& obs) const override {
    ShowAll({s_[0] / 4, s_[1] / 4, s_[2] / 4, s_[3] / 4}, obs);
    for (int i = 0; i < 4; ++i) {
      obs.field<uint8_t>(1)[i] = IsFree(At(0) + kDx[i], At(1) + kDy[i]) ? 1 : 0;
    }
  }
  int At(int i) const { return static_cast<int>(s_[i]); }
  bool AtGoal() const { return s_[0] == s_[2] && s_[1] == s_[3]; }
};

// State: the place in [-1, 1]^2, and the goal. The reward is 1 at the goal, which ends the episode,
// and 0 elsewhere.
template <bool kGrid>
class Sparse final : public HeldOutEnv {
 public:
  Sparse()
      : HeldOutEnv(MakeEnvSpec(kGrid ? "HeldOutSparseGrid" : "HeldOutSparse", 4,
                               kGrid ? Discrete("action", 4) : Box("action", {2}, {-1}, {1}), 50)) {
  }

  static std::vector<double> Control(absl::Span<const float> o) {
    const double dx = o[2] - o[0];
    const double dy = o[3] - o[1];
    if (!kGrid) return {10 * dx, 10 * dy};
    if (std::abs(dx) > std::abs(dy)) return {dx > 0 ? 0.0 : 2.0};
    return {dy > 0 ? 1.0 : 3.0};
  }

 private:
  void Begin(Rng* rng) override {
    do {
      for (int i = 0; i < 4; ++i) s_[i] = rng->Uniform(-1, 1);
    } while (Distance() < 0.6);
  }
  double Move(const RowView& action, bool* terminated) override {
    double step[2] = {};
    if constexpr (kGrid) {
      step[0] = kDx[action.scalar<int64_t>(0)];
      step[1] = kDy[action.scalar<int64_t>(0)];
    } else {
      for (const int i : {0, 1}) step[i] = action.field<float>(0)[i];
    }
    for (const int i : {0, 1}) s_[i] = std::clamp(s_[i] + 0.1 * step[i], -1.0, 1.0);
    *terminated = Distance() < 0.2;
    return *terminated ? 1 : 0;
  }
  void Show(const RowRef& obs) const override { ShowAll({s_[0], s_[1], s_[2], s_[3]}, obs); }
  double Distance() const { return std::hypot(s_[0] - s_[2], s_[1] - s_[3]); }
};

template <typename Task>
absl::StatusOr<std::unique_ptr<Env>> Create() {
  return std::make_unique<Task>();
}

using Controller = std::vector<double> (*)(absl::Span<const float>);

// Plays episodes by the controller, or at random if there is none.
absl::StatusOr<double> MeanReturn(Env* env, int episodes, Controller control) {
  DING_ASSIGN_OR_RETURN(BatchBuilder obs, BatchBuilder::Create(env->spec().observation, 1));
  DING_ASSIGN_OR_RETURN(BatchBuilder action, BatchBuilder::Create(env->spec().action, 1));
  const bool masked = env->spec().observation->size() > 1;
  const bool discrete = env->spec().action->field(0).num_categories > 0;
  double sum = 0;
  for (int episode = 0; episode < episodes; ++episode) {
    Rng rng(static_cast<uint64_t>(episode), "held_out/random");
    DING_RETURN_IF_ERROR(env->Reset({static_cast<uint64_t>(episode), {}}, obs.view().row(0)));
    StepResult result;
    while (!result.terminated && !result.truncated) {
      const std::vector<double> wanted =
          control == nullptr ? std::vector<double>() : control(obs.view().row(0).field<float>(0));
      if (discrete) {
        int64_t& chosen = action.column<int64_t>(0)[0];
        do {
          chosen = wanted.empty() ? static_cast<int64_t>(rng.UniformInt(4))
                                  : static_cast<int64_t>(wanted[0]);
        } while (masked && obs.view().row(0).field<uint8_t>(1)[chosen] == 0);
      } else {
        for (int i = 0; i < 2; ++i) {
          action.column<float>(0)[i] = static_cast<float>(
              wanted.empty() ? rng.Uniform(-1, 1) : std::clamp(wanted[i], -1.0, 1.0));
        }
      }
      DING_RETURN_IF_ERROR(
          env->Step(ColumnsView(action.view()).row(0), obs.view().row(0), &result));
      sum += result.reward;
    }
  }
  return sum / episodes;
}

DING_REGISTER(EnvRegistry(), "HeldOutDrone", WithoutParams(Create<Drone>), "hover at a point");
DING_REGISTER(EnvRegistry(), "HeldOutReacher", WithoutParams(Create<Reacher>),
              "an arm of two links");
DING_REGISTER(EnvRegistry(), "HeldOutMaze", WithoutParams(Create<Maze>),
              "a maze with action masks");
DING_REGISTER(EnvRegistry(), "HeldOutSparse", WithoutParams(Create<Sparse<false>>),
              "a goal without other rewards");
DING_REGISTER(EnvRegistry(), "HeldOutSparseGrid", WithoutParams(Create<Sparse<true>>),
              "the same, by steps in 4 directions");

}  // namespace

absl::StatusOr<HeldOutReturns> MeasureHeldOutTask(const std::string& name, int episodes) {
  const std::pair<const char*, Controller> kControllers[] = {
      {"HeldOutDrone", Drone::Control},
      {"HeldOutReacher", Reacher::Control},
      {"HeldOutMaze", Maze::Control},
      {"HeldOutSparse", Sparse<false>::Control},
      {"HeldOutSparseGrid", Sparse<true>::Control}};
  for (const auto& [task, control] : kControllers) {
    if (task != name) continue;
    EnvConfig config;
    config.set_type(name);
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Env> env, create_env(config));
    HeldOutReturns returns;
    DING_ASSIGN_OR_RETURN(returns.random, MeanReturn(env.get(), episodes, nullptr));
    DING_ASSIGN_OR_RETURN(returns.controller, MeanReturn(env.get(), episodes, control));
    return returns;
  }
  return absl::NotFoundError(absl::StrCat("no task '", name, "'"));
}

}  // namespace ding
