// Base classes of wrappers: EnvWrapper around one env, EnvManagerWrapper around the manager of all.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_ENV_ENV_WRAPPER_H_
#define DING_WORKER_ENV_ENV_WRAPPER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

// Changes what an env shows, takes or pays, without knowing the env. Wrappers are stacked
// (WrapperStack in env/wrapped_env.h, which owns them): each sees the one inside of it as its env.
//
//     policy ──action──► wrapper 1 ──► wrapper 0 ──► env
//            ◄──obs, reward, ends──────────┘
//
// A wrapper never calls the env. It is told what is asked of it and what the env inside answered,
// and says what that env is to do next (Ask). So one stack serves an Env that is called and envs of
// other processes that answer later.
//
//   BeginReset ──kReset──► (env resets) ──► AfterReset ──kNothing──► the episode has begun
//   BeginStep  ──────────► (env steps)  ──► AfterStep  ──kNothing──► the step is done
//                              ▲                └─kStep, kReset: once more
//
// Rows:   `inner` is the observation of the env inside, `obs` that of the wrapped env. They are the
//         same row if the wrapper does not change the observation; it may then change values in
//         place. Likewise `inner_action`, which a wrapper writes if it changes actions. They are
//         valid during the call only.
// State:  SaveState() and LoadState() save all that the rest of the episode depends on.
// Errors: an error of AfterReset() or AfterStep() is one of the env.
class EnvWrapper {
 public:
  // What the env inside is to do next.
  enum class Ask { kNothing, kStep, kReset };

  // Whether it changes the fields of observations; of actions, or their values.
  struct Changes {
    bool observation = false;
    bool action = false;
    // What it does with the bounds of the action inside: clips to them actions of nearly any size,
    // whose own bounds mean nothing to the env, or maps its actions to them. The first one cannot
    // stand inside of the second.
    bool clips_to_bounds = false;
    bool maps_to_bounds = false;
  };

  EnvWrapper(EnvSpec spec, Changes changes) : spec_(std::move(spec)), changes_(changes) {}
  virtual ~EnvWrapper() = default;

  // The spec of the wrapped env.
  const EnvSpec& spec() const { return spec_; }
  const Changes& changes() const { return changes_; }

  // A new episode is to begin. Returns kReset; or kStep, with an action in `inner_action`, if a
  // step begins it.
  virtual Ask BeginReset(const EpisodeStart& /*start*/, const RowRef& /*inner_action*/) {
    return Ask::kReset;
  }
  // A step is to be made. Writes the action of the env inside, if the wrapper changes actions.
  virtual void BeginStep(const RowView& /*action*/, const RowRef& /*inner_action*/) {}

  // The env inside has reset or made a step, which the wrapper asked for. Writes `obs`, if the
  // wrapper changes observations, and changes `result`. Asks for a further step, whose action is in
  // `inner_action`, or a reset.
  virtual absl::StatusOr<Ask> AfterReset(const RowView& inner, const RowRef& obs,
                                         const RowRef& /*inner_action*/) {
    Observe(inner, obs, /*first=*/true);
    return Ask::kNothing;
  }
  virtual absl::StatusOr<Ask> AfterStep(const RowView& inner, const RowRef& obs,
                                        const RowRef& /*inner_action*/, StepResult* /*result*/) {
    Observe(inner, obs, /*first=*/false);
    return Ask::kNothing;
  }
  // The episode was given up in a step that is void or failed: the next one begins by a reset.
  virtual void GiveUp() {}

  virtual absl::Status SaveState(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }

 protected:
  // For wrappers that only change observations. `first`: it is the first one of an episode.
  virtual void Observe(const RowView& /*inner*/, const RowRef& /*obs*/, bool /*first*/) {}

 private:
  const EnvSpec spec_;
  const Changes changes_;
};

// A manager around another one, which it owns, for what concerns all envs at once: statistics that
// they share, or pictures of them. Every call is passed on; a subclass overrides those that it
// changes. Errors are as those of EnvManager.
class EnvManagerWrapper : public EnvManager {
 public:
  explicit EnvManagerWrapper(std::unique_ptr<EnvManager> inner) : inner_(std::move(inner)) {}

  int env_num() const override { return inner_->env_num(); }
  const EnvSpec& env_spec() const override { return inner_->env_spec(); }
  using EnvManager::Seed;
  absl::Status Seed(absl::Span<const uint64_t> seeds, bool dynamic) override {
    return inner_->Seed(seeds, dynamic);
  }
  absl::Status Launch() override { return inner_->Launch(); }
  absl::Status Reset() override { return inner_->Reset(); }
  absl::Status Reset(absl::Span<const EnvReset> envs) override { return inner_->Reset(envs); }
  ReadyObs ready_obs() override { return inner_->ready_obs(); }
  absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                        const ColumnsView& actions) override {
    return inner_->Step(env_ids, actions);
  }
  bool plays(int env_id, int player) const override { return inner_->plays(env_id, player); }
  EnvState env_state(int env_id) const override { return inner_->env_state(env_id); }
  bool done() const override { return inner_->done(); }
  bool closed() const override { return inner_->closed(); }
  absl::StatusOr<Image> Render(int env_id) override { return inner_->Render(env_id); }
  void set_on_episode_end(std::function<void(int env_id)> function) override {
    inner_->set_on_episode_end(std::move(function));
  }
  void Close() override { inner_->Close(); }

  bool has_statistics() const override { return has_own_statistics() || inner_->has_statistics(); }
  absl::Status SaveStatistics(StateWriter* writer) const final {
    DING_RETURN_IF_ERROR(inner_->SaveStatistics(writer));
    return SaveOwnStatistics(writer);
  }
  absl::Status LoadStatistics(StateReader* reader) final {
    DING_RETURN_IF_ERROR(inner_->LoadStatistics(reader));
    return LoadOwnStatistics(reader);
  }
  absl::Status SaveState(StateWriter* writer) const final {
    ScopedStateWriter scoped(writer, kInner);
    DING_RETURN_IF_ERROR(inner_->SaveState(&scoped));
    DING_RETURN_IF_ERROR(SaveOwnStatistics(writer));
    return SaveOwnState(writer);
  }
  absl::Status LoadState(StateReader* reader, std::vector<int>* restarted) final {
    ScopedStateReader scoped(reader, kInner);
    DING_RETURN_IF_ERROR(inner_->LoadState(&scoped, restarted));
    DING_RETURN_IF_ERROR(LoadOwnStatistics(reader));
    return LoadOwnState(reader, *restarted);
  }

 protected:
  EnvManager* inner() const { return inner_.get(); }

  // Its own part of the statistics and of the further state. `restarted` began new episodes in this
  // load. The names of statistics must be those of no other wrapper, and must not depend on other
  // wrappers: evaluations may have fewer.
  virtual bool has_own_statistics() const { return false; }
  virtual absl::Status SaveOwnStatistics(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadOwnStatistics(StateReader* /*reader*/) { return absl::OkStatus(); }
  virtual absl::Status SaveOwnState(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadOwnState(StateReader* /*reader*/, absl::Span<const int> /*restarted*/) {
    return absl::OkStatus();
  }

 private:
  static constexpr char kInner[] = "inner";  // the scope of the state of the manager inside

  const std::unique_ptr<EnvManager> inner_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_WRAPPER_H_
