// What all env managers do alike: they differ only in who calls the envs. Seeds and numbers of
// episodes, states, checks of ids, actions and numbers, returns and lengths, abnormal steps, saved
// state.
//
//     Step ──► checks ──► StepEnvs() ──► all rewards and     ──► end episodes: set the last
//                         (subclass)     observations finite?    observation aside, ResetEnvs()
//
// Failures of an env are a Status other than OK, an exception, and values that are not finite.
//   - Reset: tried max_retry times (EnvHost). Then the manager closes.
//   - Step: tried max_retry times (EnvHost), with RetryType::kRenew on a new env, which makes the
//     step abnormal.
//   - A step with values that are not finite is never tried again: nobody should train past it.
// After a failed Step the failing env is in kError. What the other envs did that answered with it
// is lost: they are in kNeedReset, because going on from observations that nobody saw would leave a
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
// Ownership, threads: as EnvManager.
#ifndef DING_WORKER_ENV_ENV_MANAGER_CORE_H_
#define DING_WORKER_ENV_ENV_MANAGER_CORE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

class EnvManagerCore : public EnvManager {
 public:
  using RetryType = EnvRetryType;
  struct Options : EnvRetryOptions {
    // Episodes that each env runs before it is done; 0: no limit.
    int64_t episode_num = 0;
    // Begin the next episode as soon as one is over.
    bool auto_reset = true;
    // Abnormal steps of one env in a row that are put up with, at least 0.
    int max_abnormal_steps = 10;
  };

  EnvManagerCore(const EnvManagerCore&) = delete;
  EnvManagerCore& operator=(const EnvManagerCore&) = delete;

  int env_num() const final { return env_num_; }
  const EnvSpec& env_spec() const final { return spec_; }
  using EnvManager::Seed;
  absl::Status Seed(absl::Span<const uint64_t> seeds, bool dynamic) final;
  absl::Status Launch() final;
  absl::Status Reset() final;
  absl::Status Reset(absl::Span<const EnvReset> envs) final;
  ReadyObs ready_obs() final;
  absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                        const ColumnsView& actions) final;
  EnvState env_state(int env_id) const final;
  bool done() const final;
  bool closed() const final { return closed_; }
  absl::StatusOr<Image> Render(int env_id) final;
  // kFailedPrecondition if closed.
  absl::Status SaveState(StateWriter* writer) const final;
  // Builds the envs if closed. An error in the state of an env closes the manager, any other
  // leaves it as it was.
  absl::Status LoadState(StateReader* reader, std::vector<int>* restarted) final;
  void Close() final;

 protected:
  // Blocks of rows, one per env.
  struct Blocks {
    static absl::StatusOr<Blocks> Create(const EnvSpec& spec, int env_num);
    BatchBuilder ready;  // those of the envs that are ready, gathered when not all are
    BatchBuilder final;  // last observations of the episodes that ended with the last step
  };

  // Every problem of them, as one error.
  //   problems  of options that only the subclass has
  static absl::Status CheckOptions(const Options& options, std::vector<std::string> problems);

  // Row i of `rows`, zero at first, is what env i saw last. It must outlive the manager's calls.
  EnvManagerCore(Options options, EnvSpec spec, MutableColumnsView rows, Blocks blocks);

  // What a subclass does, for envs that are known and in a fitting state.

  // Steps each env with its row of `actions` and calls Account() for each that has answered:
  // `answered` is those, in the order of Account()'s rows. An error is StepFailed()'s or Account()'s.
  virtual absl::Status StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions,
                                absl::Span<const int>* answered) = 0;
  // Begins an episode of each: takes its NextEpisode() and calls Began(), whose error it returns.
  virtual absl::Status ResetEnvs(absl::Span<const int> env_ids) = 0;
  // The same after episodes that ended by themselves: need not wait (NoteAsked).
  virtual absl::Status BeginResets(absl::Span<const int> env_ids) { return ResetEnvs(env_ids); }
  // Waits until these envs are idle and forgets what they answer.
  virtual absl::Status Settle(absl::Span<const int> /*env_ids*/) { return absl::OkStatus(); }
  virtual absl::StatusOr<Image> RenderEnv(int env_id) = 0;
  virtual absl::Status SaveEnv(int env_id, StateWriter* writer) const = 0;
  // Builds the env if there is none.
  virtual absl::Status LoadEnv(int env_id, StateReader* reader) = 0;
  // Ends all envs. No error: what does not end by itself is the subclass's to name later.
  virtual void EndEnvs() = 0;

  const Options& options() const { return options_; }
  MutableColumnsView rows() const { return rows_; }
  absl::Span<const int> all_ids() const { return all_ids_; }
  // "env 3 (CartPole-v1)".
  std::string EnvName(int env_id) const;

  // Seed and parameters of the episode that this env begins now.
  EpisodeStart NextEpisode(int env_id);
  // Notes how its reset went.
  absl::Status Began(int env_id, const EpisodeStart& start, const absl::Status& status);

  // Notes the answer of an env as row `row` of the timesteps. False if a reward is not all there is
  // to note: then AccountRest() must follow.
  bool AccountReward(size_t row, int env_id, const StepResult& result) {
    Slot& slot = slots_[static_cast<size_t>(env_id)];
    ++slot.length;
    slot.episode_return += result.reward;
    reward_[row] = result.reward;
    reward_sum_ += result.reward;
    // One branch for all, because the end of an episode is hard to predict.
    const bool ended = result.terminated | result.truncated | result.abnormal;
    if (ABSL_PREDICT_FALSE(ended | is_game_)) return false;
    slot.abnormal_in_a_row = 0;
    return true;
  }
  // The rewards of the other players; the end of the episode; an abnormal step and, if it is not
  // OK, why. `result` must be cleared before it is used again. An error if there are too many
  // abnormal steps.
  absl::Status AccountRest(size_t row, int env_id, const absl::Status& void_cause,
                           StepResult* result);
  // A step that failed for good: names the env.
  absl::Status StepFailed(int env_id, const absl::Status& failure) const;
  // Of the envs in rows [0, stepped_rows), the one in `failed_row` is in error, the others have
  // lost a step. Returns `failure`.
  absl::Status FailStep(absl::Span<const int> env_ids, size_t failed_row, size_t stepped_rows,
                        const absl::Status& failure);

  // Whether an env is busy with a step or a reset that it was asked for: it is neither ready nor
  // can it be stepped. Its state is kRun or kReset.
  void NoteAsked(int env_id, EnvState state);
  void NoteAnswered(int env_id);
  bool asked(int env_id) const { return slots_[static_cast<size_t>(env_id)].asked; }
  // Its step was lost, and its episode with it: it is in kNeedReset.
  void NoteLost(int env_id) { SetState(env_id, EnvState::kNeedReset); }

 private:
  // The current episode of an env.
  struct Slot {
    EnvState state = EnvState::kVoid;
    bool asked = false;
    bool ready = false;                 // in kRun and not asked
    int64_t length = 0;                 // steps of this episode
    double episode_return = 0;          // sum of its rewards
    std::vector<double> other_returns;  // of a game: of players 1, 2, ...
    int64_t last_step = 0;              // number of the Step() that it stood in last
    int64_t abnormal_in_a_row = 0;
    int64_t episodes_done = 0;   // towards episode_num
    int64_t episodes_begun = 0;  // since Seed() or Launch()
    uint64_t seed = 0;
    NamedValues params;
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

  // Begins an episode of each; closes the manager if one fails.
  absl::Status BeginEpisodes(absl::Span<const int> env_ids);

  absl::Status CheckStep(absl::Span<const int> env_ids, const ColumnsView& actions);
  // Adds those of `result` to the env's returns and sets them down in row `row`.
  absl::Status NoteOtherRewards(size_t row, int env_id, const StepResult& result);
  absl::Status NoteEnd(int row, int env_id, const absl::Status& void_cause, StepResult* result);
  absl::Status CheckFinite(absl::Span<const int> env_ids);
  // The rows of timesteps_, whose columns never move.
  void SetRows(size_t count);
  // Those of the step before.
  void ForgetEnds();
  absl::Status EndEpisodes(absl::Span<const int> env_ids);
  void FinishEpisode(int env_id, Ended* ended);

  absl::Span<uint8_t> terminated() { return absl::MakeSpan(ends_.data(), env_num_); }
  absl::Span<uint8_t> truncated() { return absl::MakeSpan(ends_.data() + env_num_, env_num_); }
  absl::Span<uint8_t> abnormal() { return absl::MakeSpan(ends_.data() + 2 * env_num_, env_num_); }

  void SetState(int env_id, EnvState state);
  absl::Status CheckEnvId(int env_id) const;
  absl::Status CheckOpen(absl::string_view call) const;

  absl::Status SaveEnvs(StateWriter* writer) const;
  absl::StatusOr<SavedState> ReadState(StateReader* reader) const;
  absl::Status ReadRows(StateReader* reader, std::vector<Tensor>* columns) const;
  absl::Status LoadEnvs(StateReader* reader, absl::Span<const uint8_t> saved,
                        std::vector<int>* restarted);

  const Options options_;
  const EnvSpec spec_;
  const MutableColumnsView rows_;
  const int env_num_;
  const bool is_game_;             // of several players
  std::vector<int> float_fields_;  // of the observation: those that must be finite
  std::vector<int> mask_fields_;   // per player: its action mask, or -1; empty if nobody has one
  std::vector<Slot> slots_;
  bool closed_ = true;
  bool dynamic_seed_ = true;

  Blocks blocks_;
  std::vector<int> all_ids_;
  std::vector<int> ready_ids_;
  std::vector<int64_t> ready_sources_;  // the same as rows to gather
  bool ready_ids_known_ = false;

  // The last step.
  int64_t step_count_ = 0;
  std::vector<Ended> ended_;
  std::vector<AbnormalCause> causes_;
  std::vector<int> stepped_ids_;
  std::vector<int> reset_ids_;
  std::vector<float> reward_;
  double reward_sum_ = 0;  // finite if all of them are, of which there are too few to overflow
  std::vector<float> other_rewards_;  // [N, players - 1]
  std::vector<uint8_t> ends_;         // terminated, truncated, abnormal: [3, env_num]
  std::vector<FinishedEpisode> finished_;
  Timesteps timesteps_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_MANAGER_CORE_H_
