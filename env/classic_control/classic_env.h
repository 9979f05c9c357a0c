// The common part of the classic control problems as envs: time limit, start of an episode from a
// seed, saving and restoring. The problem itself is a Model:
//
//     struct Model {
//       using State = ...;   // doubles only
//       using Action = ...;  // int64_t (a category) or float
//       static State Start(Rng* rng);
//       using Derived = ...;  // what a step needs that takes a call of libm, such as a sine
//       static Derived Derive(const State& state);
//       static ClassicOutcome Step(Action action, const Derived& derived, State* state);
//       static void Observe(const State& state, float* obs);  // all numbers of a row
//       static Image Draw(const State& state);
//     };
//
// The env has the time limit: it truncates the episode after max_episode_steps, unless the episode
// terminates in that step. (Gymnasium then sets both flags; `terminated` decides whether there is a
// bootstrap value.)
//
// Threads: as Env.   Errors: a reset with parameters, a step after the end of an episode.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_CLASSIC_ENV_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_CLASSIC_ENV_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/vector_env.h"

namespace ding {

// The result of a step of a classic control problem, besides the new state.
struct ClassicOutcome {
  double reward = 0;
  bool terminated = false;
};

template <typename Model>
class ClassicEnv final : public VectorEnv {
 public:
  explicit ClassicEnv(EnvSpec spec) : spec_(std::move(spec)) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    if (!start.params.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(spec_.name, " takes no parameters, got '",
                                                     start.params.begin()->first, "'"));
    }
    static constexpr Rng::Purpose kStart("env/start");
    Rng rng(start.seed, kStart);
    state_ = Model::Start(&rng);
    steps_ = 0;
    over_ = false;
    Model::Observe(state_, obs.field<float>(0).data());
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    if (ABSL_PREDICT_FALSE(over_)) {
      return absl::FailedPreconditionError("Step() without a running episode; call Reset() first");
    }
    const ClassicOutcome outcome = Advance(action.scalar<Action>(0), Model::Derive(state_),
                                           obs.field<float>(0).data(), &result->reward);
    result->terminated = outcome.terminated;
    result->truncated = over_ && !outcome.terminated;
    return absl::OkStatus();
  }

  bool StepAll(const AllEnvs& all) override {
    for (const VectorEnv* const env : all.envs) {
      if (ABSL_PREDICT_FALSE(static_cast<const ClassicEnv*>(env)->over_)) return false;
    }
    const Action* const actions = all.actions.column<Action>(0).data();
    float* obs = all.obs.column<float>(0).data();
    const auto width = static_cast<size_t>(spec_.observation->field(0).num_elements());
    // The calls of libm come first, for some envs at a time, so that no call stands between the
    // divisions of these envs.
    constexpr size_t kBlock = 16;
    Derived derived[kBlock];
    for (size_t begin = 0; begin < all.envs.size(); begin += kBlock) {
      const size_t end = std::min(begin + kBlock, all.envs.size());
      for (size_t i = begin; i < end; ++i) {
        derived[i - begin] = Model::Derive(static_cast<const ClassicEnv*>(all.envs[i])->state_);
      }
      for (size_t i = begin; i < end; ++i, obs += width) {
        auto* const env = static_cast<ClassicEnv*>(all.envs[i]);
        const ClassicOutcome outcome =
            env->Advance(actions[i], derived[i - begin], obs, &all.reward[i]);
        all.terminated[i] = outcome.terminated ? 1 : 0;
        all.truncated[i] = env->over_ && !outcome.terminated ? 1 : 0;
      }
    }
    return true;
  }

  // "state": the numbers of Model::State in order; "steps" of the episode so far; "over": 0 or 1.
  absl::Status SaveState(StateWriter* writer) const override {
    const Numbers numbers = ToNumbers(state_);
    DING_RETURN_IF_ERROR(writer->WriteSpan<double>("state", numbers));
    DING_RETURN_IF_ERROR(writer->WriteInt("steps", steps_));
    return writer->WriteInt("over", over_ ? 1 : 0);
  }

  absl::Status LoadState(StateReader* reader) override {
    Numbers numbers;
    DING_RETURN_IF_ERROR(reader->ReadSpan<double>("state", absl::MakeSpan(numbers)));
    DING_ASSIGN_OR_RETURN(const int64_t steps, reader->ReadInt("steps"));
    DING_ASSIGN_OR_RETURN(const int64_t over, reader->ReadInt("over"));
    for (const double number : numbers) {
      if (!std::isfinite(number)) {
        return absl::InvalidArgumentError(absl::StrCat("saved 'state' contains ", number));
      }
    }
    if (steps < 0 || steps > spec_.max_episode_steps) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved 'steps' is ", steps, ", expected 0..", spec_.max_episode_steps));
    }
    std::memcpy(static_cast<void*>(&state_), numbers.data(), sizeof(state_));
    steps_ = steps;
    over_ = over != 0;
    return absl::OkStatus();
  }

  absl::StatusOr<Image> Render() override { return Model::Draw(state_); }

 private:
  using Action = typename Model::Action;
  using Derived = typename Model::Derived;
  using State = typename Model::State;
  using Numbers = std::array<double, sizeof(State) / sizeof(double)>;
  static_assert(std::is_trivially_copyable_v<State> && sizeof(Numbers) == sizeof(State));

  static Numbers ToNumbers(const State& state) {
    Numbers numbers;
    std::memcpy(numbers.data(), &state, sizeof(state));
    return numbers;
  }

  // One step; sets over_.
  ClassicOutcome Advance(Action action, const Derived& derived, float* obs, float* reward) {
    const ClassicOutcome outcome = Model::Step(action, derived, &state_);
    ++steps_;
    Model::Observe(state_, obs);
    *reward = static_cast<float>(outcome.reward);
    over_ = outcome.terminated | (steps_ == spec_.max_episode_steps);
    return outcome;
  }

  const EnvSpec spec_;
  State state_{};
  int64_t steps_ = 0;
  bool over_ = true;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_CLASSIC_ENV_H_
