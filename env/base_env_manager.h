// The env manager that steps its envs one after the other, in the caller's thread: the fastest one
// for envs that take microseconds, and the one whose runs repeat bit by bit.
//
// A step runs in three passes, so that a failing env loses nothing of the others half-way:
//
//     step every env ──► all rewards and observations finite? ──► end episodes: set the last
//     (user code)                                                 observation aside, reset
//
// Failures of an env are a Status other than OK, an exception, and values that are not finite.
//   - Reset: tried max_retry times, with retry_waiting_time between attempts and, with
//     RetryType::kRenew, a new env for each further attempt. Then the manager closes.
//   - Step, RetryType::kReset: the same step is tried again on the same env.
//   - Step, RetryType::kRenew: a new env cannot go on with the old episode. It is built and reset,
//     and the step is reported as abnormal.
//   - A step with values that are not finite is never tried again: nobody should train past it.
// After a failed Step the failing env is in kError. What the other envs of that call did is lost
// with it: they are in kNeedReset, because going on from observations that nobody saw would leave a
// hole in their episodes.
//
// An abnormal step is void whatever the env said of it: the env is reset with its stored
// parameters, also with auto_reset off, and goes on. More than max_abnormal_steps of one env in a
// row are an error.
//
// Seeds: without Seed(), env i has seed i, dynamically. Episode k of an env with seed s starts from
// Rng::DeriveSeed(s, "env/episode", k) with dynamic seeds, from s without. k counts from the last
// Seed() or Launch().
//
// It cannot survive a crash of an env or interrupt one that hangs; only managers that run envs in
// processes of their own can. kInit and kReset are never seen between two calls.
//
// Ownership, threads: as EnvManager.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto manager, BaseEnvManager::Create({}, factories));
//   DING_RETURN_IF_ERROR(manager->Seed(0, /*dynamic=*/true));
//   DING_RETURN_IF_ERROR(manager->Launch());
#ifndef DING_WORKER_ENV_BASE_ENV_MANAGER_H_
#define DING_WORKER_ENV_BASE_ENV_MANAGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

class BaseEnvManager : public EnvManager {
 public:
  enum class RetryType {
    kReset,  // try again with the same env
    kRenew,  // build a new env before each further attempt
  };

  struct Options {
    // Episodes that each env runs before it is done; 0: no limit.
    int64_t episode_num = 0;
    // Attempts at a reset or a step before it counts as failed, at least 1.
    int max_retry = 1;
    RetryType retry_type = RetryType::kReset;
    // Begin the next episode as soon as one is over.
    bool auto_reset = true;
    absl::Duration retry_waiting_time = absl::Milliseconds(100);
    // Abnormal steps of one env in a row that are put up with, at least 0.
    int max_abnormal_steps = 10;
    // Waits between attempts; a test has it return at once.
    std::function<void(absl::Duration)> sleep = absl::SleepFor;
  };

  // One env per factory, at least one. Builds the first env, to know the spec.
  //   kInvalidArgument  options (all problems at once), no factories, a spec that is not valid
  //   other             what the factory said
  static absl::StatusOr<std::unique_ptr<BaseEnvManager>> Create(Options options,
                                                                std::vector<EnvFactory> factories);

  BaseEnvManager(const BaseEnvManager&) = delete;
  BaseEnvManager& operator=(const BaseEnvManager&) = delete;

  int env_num() const override { return static_cast<int>(slots_.size()); }
  const EnvSpec& env_spec() const override { return spec_; }
  using EnvManager::Seed;
  absl::Status Seed(absl::Span<const uint64_t> seeds, bool dynamic) override;
  absl::Status Launch() override;
  absl::Status Reset() override;
  absl::Status Reset(absl::Span<const EnvReset> envs) override;
  ReadyObs ready_obs() override;
  absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                        const ColumnsView& actions) override;
  EnvState env_state(int env_id) const override;
  bool done() const override;
  bool closed() const override { return closed_; }
  absl::StatusOr<Image> Render(int env_id) override;
  // kFailedPrecondition if closed.
  absl::Status SaveState(StateWriter* writer) const override;
  // Builds the envs if closed. An error in the state of an env closes the manager, any other
  // leaves it as it was.
  absl::Status LoadState(StateReader* reader, std::vector<int>* restarted) override;
  void Close() override;

 private:
  // One env and its current episode.
  struct Slot {
    std::unique_ptr<Env> env;  // null: to be built by the next reset
    EnvState state = EnvState::kVoid;
    int64_t length = 0;                 // steps of this episode
    double episode_return = 0;          // sum of its rewards
    std::vector<double> other_returns;  // of a game: of players 1, 2, ...
    int64_t last_step = 0;              // number of the Step() that it stood in last
    int64_t abnormal_in_a_row = 0;
    int64_t episodes_done = 0;   // towards episode_num
    int64_t episodes_begun = 0;  // since Seed() or Launch()
    uint64_t seed = 0;
    NamedValues params;
    EnvFactory factory;
  };
  // An env that needs attention after a pass over all: its episode is over, or its step void.
  struct Ended {
    int row;
    bool abnormal;
    NamedValues info;
  };
  struct SavedState;
  struct Counter;
  static const Counter kCounters[];

  BaseEnvManager(Options options, EnvSpec spec, BatchBuilder rows, BatchBuilder ready_rows,
                 BatchBuilder final_rows);
  void ReserveStep();

  // Building and resetting.
  absl::Status BuildEnv(int env_id);
  absl::Status CheckSameSpec(const EnvSpec& spec) const;
  absl::Status BeginEpisode(int env_id);
  absl::Status TryReset(int env_id, const EpisodeStart& start);
  // Begins an episode of each; closes the manager if one fails.
  absl::Status BeginEpisodes(absl::Span<const int> env_ids);

  // The passes of Step.
  absl::Status CheckStep(absl::Span<const int> env_ids, const ColumnsView& actions);
  absl::Status StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions);
  absl::Status RetryStep(int env_id, const RowView& action, absl::Status failure);
  void ClearResult();
  // Adds those of result_ to the env's returns and sets them down in row `row`.
  absl::Status NoteOtherRewards(size_t row, int env_id);
  absl::Status NoteEnd(int row, int env_id);
  absl::Status CheckFinite(absl::Span<const int> env_ids);
  // What is not finite in the row of an env; OK if nothing is.
  absl::Status CheckObservation(int env_id) const;
  absl::Status EndEpisodes(absl::Span<const int> env_ids);
  void FinishEpisode(int env_id, Ended* ended);
  // Of the envs in rows [0, stepped_rows), the one in `failed_row` is in error, the others have
  // lost a step.
  absl::Status FailStep(absl::Span<const int> env_ids, size_t failed_row, size_t stepped_rows,
                        const absl::Status& failure);

  void SetState(int env_id, EnvState state);
  std::string EnvName(int env_id) const;
  absl::Status CheckEnvId(int env_id) const;
  absl::Status CheckOpen(absl::string_view call) const;

  absl::Status SaveEnvs(StateWriter* writer) const;
  absl::StatusOr<SavedState> ReadState(StateReader* reader) const;
  absl::Status ReadRows(StateReader* reader, std::vector<Tensor>* columns) const;
  absl::Status LoadEnvs(StateReader* reader, absl::Span<const uint8_t> saved,
                        std::vector<int>* restarted);

  const Options options_;
  const EnvSpec spec_;
  std::vector<int> float_fields_;  // of the observation: those that must be finite
  std::vector<int> mask_fields_;   // per player: its action mask, or -1; empty if nobody has one
  std::vector<Slot> slots_;
  bool closed_ = true;
  bool dynamic_seed_ = true;

  BatchBuilder rows_;        // row i: what env i saw last
  BatchBuilder ready_rows_;  // those of the envs that are ready, gathered when not all are
  BatchBuilder final_rows_;  // last observations of the episodes that ended with the last step
  std::vector<int> all_ids_;
  std::vector<int> ready_ids_;
  std::vector<int64_t> ready_sources_;  // the same as rows to gather
  bool ready_ids_known_ = false;

  // The last step.
  int64_t step_count_ = 0;
  StepResult result_;
  std::vector<Ended> ended_;
  std::vector<int> stepped_ids_;
  std::vector<float> reward_;
  std::vector<float> other_rewards_;        // [N, players - 1]
  std::vector<std::byte*> action_columns_;  // of the players
  std::vector<uint8_t> terminated_;
  std::vector<uint8_t> truncated_;
  std::vector<uint8_t> abnormal_;
  std::vector<FinishedEpisode> finished_;
  Timesteps timesteps_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BASE_ENV_MANAGER_H_
