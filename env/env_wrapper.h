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

// Changes the observations, actions or rewards of an env. Wrappers are stacked (WrapperStack in
// env/wrapped_env.h, which owns them): each sees the next inner wrapper as its env.
//
//     policy ──action──► wrapper 1 ──► wrapper 0 ──► env
//            ◄──obs, reward, ends──────────┘
//
// A wrapper never calls the env. It gets each call and each answer of the inner env, and returns
// the next call of the inner env (Ask). So the same stack works for an Env that is called directly
// and for envs of other processes that answer later.
//
//   BeginReset ──kReset──► (env resets) ──► AfterReset ──kNothing──► the episode has begun
//   BeginStep  ──────────► (env steps)  ──► AfterStep  ──kNothing──► the step is done
//                              ▲                └─kStep, kReset: once more
//
// Rows:   `inner` is the observation of the inner env, `obs` the observation of the wrapped env.
//         They are the same row if the wrapper does not change the observation; it may then change
//         values in place. A wrapper that changes actions writes `inner_action`. Rows are valid
//         during the call only.
// State:  SaveState() and LoadState() save all state that the rest of the episode depends on.
// Errors: an error of AfterReset() or AfterStep() counts as an error of the env.
class EnvWrapper {
 public:
  // The next call of the inner env.
  enum class Ask { kNothing, kStep, kReset };

  // What the wrapper changes: the fields of observations; the fields of actions, or their values.
  struct Changes {
    bool observation = false;
    bool action = false;
    // How the wrapper treats the inner env's action bounds: it clips actions to them, or rescales
    // actions onto them. A clipping wrapper must not be inside a rescaling one.
    bool clips_to_bounds = false;
    bool maps_to_bounds = false;
  };

  EnvWrapper(EnvSpec spec, Changes changes) : spec_(std::move(spec)), changes_(changes) {}
  virtual ~EnvWrapper() = default;

  // The spec of the wrapped env.
  const EnvSpec& spec() const { return spec_; }
  const Changes& changes() const { return changes_; }

  // Begins a new episode. Returns kReset; or kStep, with an action in `inner_action`, if the
  // episode begins with a step of the inner env.
  virtual Ask BeginReset(const EpisodeStart& /*start*/, const RowRef& /*inner_action*/) {
    return Ask::kReset;
  }
  // Begins a step. Writes the action of the inner env, if the wrapper changes actions.
  virtual void BeginStep(const RowView& /*action*/, const RowRef& /*inner_action*/) {}

  // Called after a reset or a step of the inner env that the wrapper asked for. Write `obs`, if the
  // wrapper changes observations, and change `result`. May ask for a further step, with its action
  // in `inner_action`, or a reset.
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
  // Called when a void or failed step has ended the episode; the next one begins with a reset.
  virtual void GiveUp() {}

  virtual absl::Status SaveState(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }

 protected:
  // For wrappers that only change observations. `first`: the first observation of an episode.
  virtual void Observe(const RowView& /*inner*/, const RowRef& /*obs*/, bool /*first*/) {}

 private:
  const EnvSpec spec_;
  const Changes changes_;
};

// A manager around another manager, which it owns, for features of all envs at once: shared
// statistics, or pictures. It forwards every call; a subclass overrides the calls that it changes.
// Errors: as EnvManager.
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

  // The wrapper's own part of the statistics and of the other state. The envs in `restarted` began
  // new episodes in this load. The names of statistics must differ from those of other wrappers,
  // and must not depend on other wrappers: evaluations may have fewer.
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
