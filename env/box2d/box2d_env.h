// The common part of the Box2D tasks as envs: time limit, start of an episode from a seed, saving
// and restoring. The task itself is a Game, which holds the world of one episode:
//
//     class Game {
//      public:
//       struct Options { ... };
//       using Action = ...;                 // int64_t (a category) or float
//       static constexpr int kActionSize;   // numbers of an action
//       Game(const Options& options, uint64_t seed);           // begins the episode
//       ClassicOutcome Step(absl::Span<const Action> action);
//       void Observe(absl::Span<float> obs) const;
//       Image Draw() const;
//     };
//
// Saved state: Box2D has hidden state that determines the last bits of a step (the order of
// contacts, the solver's first impulses, a tree of boxes whose shape depends on its history). So
// the env saves the seed and all actions of the episode, and a load plays them again in a new
// world. Then it compares the last observation with the saved one bit for bit: with another version
// of Box2D or of the math library the episode would differ, and the load is refused.
//
// Each episode has a new world, so that no state of the previous episode remains.
//
// Threads: as Env.   Errors: a reset with parameters, a step after the end of an episode. A step
// after which an observation or the reward is not finite is abnormal.
#ifndef DING_WORKER_ENV_BOX2D_BOX2D_ENV_H_
#define DING_WORKER_ENV_BOX2D_BOX2D_ENV_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"

namespace ding {

template <typename Game>
class Box2dEnv final : public Env {
 public:
  Box2dEnv(EnvSpec spec, typename Game::Options options)
      : spec_(std::move(spec)), options_(std::move(options)) {
    actions_.reserve(static_cast<size_t>(max_actions()));
  }

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    if (!start.params.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          spec_.name, " takes no parameters at a reset, got '", start.params.begin()->first, "'"));
    }
    seed_ = start.seed;
    actions_.clear();
    game_ = std::make_unique<Game>(options_, seed_);
    over_ = false;
    game_->Observe(obs.field<float>(0));
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    if (over_) {
      return absl::FailedPreconditionError("Step() without a running episode; call Reset() first");
    }
    const absl::Span<const Action> numbers = action.field<Action>(0);
    actions_.insert(actions_.end(), numbers.begin(), numbers.end());
    const ClassicOutcome outcome = game_->Step(numbers);
    const absl::Span<float> shown = obs.field<float>(0);
    game_->Observe(shown);
    result->reward = static_cast<float>(outcome.reward);
    result->abnormal = !std::isfinite(result->reward) || !AllFinite(shown);
    result->terminated = outcome.terminated;
    result->truncated = !outcome.terminated && steps() == spec_.max_episode_steps;
    over_ = result->terminated || result->truncated || result->abnormal;
    return absl::OkStatus();
  }

  // "seed" of the episode; "actions": all numbers of all its actions in order; "obs": the
  // observation after them; "over": 0 or 1. Before the first reset "obs" has no elements.
  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("seed", static_cast<int64_t>(seed_)));
    DING_RETURN_IF_ERROR(writer->WriteSpan<Action>("actions", actions_));
    DING_RETURN_IF_ERROR(writer->WriteSpan<float>("obs", Show(game_.get())));
    return writer->WriteInt("over", over_ ? 1 : 0);
  }

  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const int64_t seed, reader->ReadInt("seed"));
    DING_ASSIGN_OR_RETURN(const TensorInfo actions_info, reader->Info("actions"));
    const int64_t count = actions_info.shape.empty() ? 0 : actions_info.shape[0];
    if (count > max_actions() || count % Game::kActionSize != 0) {
      return absl::InvalidArgumentError(absl::StrCat("saved 'actions' has ", count,
                                                     " numbers, expected a multiple of ",
                                                     Game::kActionSize, " up to ", max_actions()));
    }
    std::vector<Action> actions(static_cast<size_t>(count));
    DING_RETURN_IF_ERROR(reader->ReadSpan<Action>("actions", absl::MakeSpan(actions)));
    DING_RETURN_IF_ERROR(CheckSaved(actions));
    DING_ASSIGN_OR_RETURN(const TensorInfo obs_info, reader->Info("obs"));
    const bool has_game = obs_info.shape != Shape{0};
    std::vector<float> obs(
        has_game ? static_cast<size_t>(spec_.observation->field(0).num_elements()) : 0);
    DING_RETURN_IF_ERROR(reader->ReadSpan<float>("obs", absl::MakeSpan(obs)));
    DING_ASSIGN_OR_RETURN(const int64_t over, reader->ReadInt("over"));

    std::unique_ptr<Game> game;
    if (has_game) game = std::make_unique<Game>(options_, static_cast<uint64_t>(seed));
    for (size_t i = 0; has_game && i < actions.size(); i += Game::kActionSize) {
      game->Step(absl::MakeConstSpan(actions).subspan(i, Game::kActionSize));
    }
    const std::vector<float> replayed = Show(game.get());
    if (has_game && std::memcmp(replayed.data(), obs.data(), obs.size() * sizeof(float)) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(spec_.name, ": the ", count / Game::kActionSize,
                       " saved actions lead to another observation than ",
                       "was saved, so the episode cannot be continued. It was saved by another "
                       "version of Box2D or of the ",
                       "math library, or by an env with other params: resume with those"));
    }
    seed_ = static_cast<uint64_t>(seed);
    actions_.assign(actions.begin(), actions.end());
    game_ = std::move(game);
    over_ = over != 0 || game_ == nullptr;
    return absl::OkStatus();
  }

  absl::StatusOr<Image> Render() override {
    if (game_ == nullptr) {
      return absl::FailedPreconditionError("Render() before the first episode; call Reset() first");
    }
    return game_->Draw();
  }

 private:
  using Action = typename Game::Action;

  int64_t steps() const { return static_cast<int64_t>(actions_.size()) / Game::kActionSize; }
  int64_t max_actions() const { return spec_.max_episode_steps * Game::kActionSize; }

  static bool AllFinite(absl::Span<const float> values) {
    return std::all_of(values.begin(), values.end(),
                       [](float value) { return std::isfinite(value); });
  }

  std::vector<float> Show(const Game* game) const {
    if (game == nullptr) return {};
    std::vector<float> obs(static_cast<size_t>(spec_.observation->field(0).num_elements()));
    game->Observe(absl::MakeSpan(obs));
    return obs;
  }

  absl::Status CheckSaved(absl::Span<const Action> actions) const {
    const FieldSpec& field = spec_.action->field(0);
    for (const Action number : actions) {
      bool legal;
      if constexpr (std::is_integral_v<Action>) {
        legal = number >= 0 && number < field.CategoryCount(0);
      } else {
        legal = number >= -1 && number <= 1;
      }
      if (!legal) {
        return absl::InvalidArgumentError(absl::StrCat("saved 'actions' contains ", number,
                                                       ", which is not legal in ", spec_.name));
      }
    }
    return absl::OkStatus();
  }

  const EnvSpec spec_;
  const typename Game::Options options_;
  uint64_t seed_ = 0;
  std::vector<Action> actions_;  // of the episode so far
  std::unique_ptr<Game> game_;   // null before the first episode
  bool over_ = true;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOX2D_BOX2D_ENV_H_
