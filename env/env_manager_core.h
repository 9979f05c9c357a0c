// The common part of all env managers, which differ only in where the envs run. It keeps seeds,
// counts of episodes, states, returns and lengths, checks ids, actions and numbers, handles
// abnormal steps, and saves its state.
//
//     Step ──► checks ──► StepEnvs() ──► all rewards and     ──► end episodes: set the last
//                         (subclass)     observations finite?    observation aside, ResetEnvs()
//
// An env fails by an error Status, an exception, or values that are NaN or infinite.
//   - Reset: EnvHost makes up to max_retry attempts; if all fail, the manager closes.
//   - Step: EnvHost makes up to max_retry attempts; RetryType::kRenew builds a new env, which makes
//     the step abnormal.
//   - A step with NaN or infinity is never retried, because training must not continue past it. It
//     fails, or it is abnormal (drop_not_finite). After a reset with NaN or infinity, the next
//     episode may begin instead.
// After a failed Step() the failing env is in kError. The steps of the other envs that answered in
// this call are lost and these envs are in kNeedReset: continuing would leave a gap in their
// episodes.
//
// An abnormal step is void; its other results are ignored. The env is reset with its stored
// parameters, even if auto_reset is off. More than max_abnormal_steps consecutive abnormal steps of
// one env are an error.
//
// Seeds: without Seed(), env i has seed i, and seeds are dynamic. Episode k of an env with seed s
// starts from Rng::DeriveSeed(s, "env/episode", k) if seeds are dynamic, else from s. k counts from
// the last Seed() or Launch().
//
// Ownership, threads: as EnvManager.
#ifndef DING_WORKER_ENV_ENV_MANAGER_CORE_H_
#define DING_WORKER_ENV_ENV_MANAGER_CORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
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
    // The number of episodes that each env runs before it is done; 0: no limit.
    int64_t episode_num = 0;
    // Whether an env begins its next episode as soon as one is over.
    bool auto_reset = true;
    // The number of consecutive abnormal steps of one env that are accepted, at least 0.
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
  bool plays(int env_id, int player) const final;
  EnvState env_state(int env_id) const final;
  bool done() const final;
  bool closed() const final { return closed_; }
  absl::StatusOr<Image> Render(int env_id) final;
  void set_on_episode_end(std::function<void(int env_id)> function) final {
    on_episode_end_ = std::move(function);
  }
  // kFailedPrecondition if closed.
  absl::Status SaveState(StateWriter* writer) const final;
  // Builds the envs if the manager is closed. An error in the state of an env closes the manager;
  // after any other error the manager is unchanged.
  absl::Status LoadState(StateReader* reader, std::vector<int>* restarted) final;
  void Close() final;

 protected:
  // Blocks of rows, one per env.
  struct Blocks {
    static absl::StatusOr<Blocks> Create(const EnvSpec& spec, int env_num);
    BatchBuilder ready;  // observations of the ready envs, gathered when their rows have gaps
    BatchBuilder final;  // last observations of the episodes that ended in the last step
    std::optional<BatchBuilder> info;  // Timesteps::info, if the env declares fields
  };

  // kInvalidArgument with all problems of `options`, and with `problems` of the subclass's own
  // options.
  static absl::Status CheckOptions(const Options& options, std::vector<std::string> problems);

  // Row i of `rows` holds the last observation of env i, at first zeros. `rows` must stay valid
  // during all calls.
  EnvManagerCore(Options options, EnvSpec spec, MutableColumnsView rows, Blocks blocks);

  // The methods that a subclass implements. The ids are valid and the envs are in a suitable state.

  // Steps each env with its row of `actions`, and calls AccountReward() and, if needed,
  // AccountRest() for each env that has answered. Sets `answered` to these envs, in the order of
  // their rows. Returns an error of StepFailed() or AccountRest().
  virtual absl::Status StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions,
                                absl::Span<const int>* answered) = 0;
  // Begins an episode of each env from its NextEpisode() and calls Began(), whose error it returns.
  virtual absl::Status ResetEnvs(absl::Span<const int> env_ids) = 0;
  // Like ResetEnvs(), after episodes that ended in a step; it need not wait (NoteAsked).
  virtual absl::Status BeginResets(absl::Span<const int> env_ids) { return ResetEnvs(env_ids); }
  // Waits until these envs are idle and drops their answers.
  virtual absl::Status Settle(absl::Span<const int> /*env_ids*/) { return absl::OkStatus(); }
  virtual absl::StatusOr<Image> RenderEnv(int env_id) = 0;
  virtual absl::Status SaveEnv(int env_id, StateWriter* writer) const = 0;
  // Builds the env if there is none.
  virtual absl::Status LoadEnv(int env_id, StateReader* reader) = 0;
  // Destroys all envs. It returns no error: if an env does not end, the subclass reports that
  // later.
  virtual void EndEnvs() = 0;

  const Options& options() const { return options_; }
  MutableColumnsView rows() const { return rows_; }
  absl::Span<const int> all_ids() const { return all_ids_; }
  // "env 3 (CartPole-v1)".
  std::string EnvName(int env_id) const;

  // Returns seed and parameters of the episode that this env begins now, and counts the episode.
  EpisodeStart NextEpisode(int env_id);
  // Returns what NextEpisode() will return when this episode is over, unless the env is seeded or
  // reset before.
  EpisodeStart PeekNextEpisode(int env_id) const;
  // Whether on_episode_end must be called before an env begins its next episode.
  bool has_on_episode_end() const { return on_episode_end_ != nullptr; }
  // Whether the env begins the next episode by itself as soon as this one is over.
  bool BeginsNextEpisode(int env_id) const {
    const int64_t done = slots_[static_cast<size_t>(env_id)].episodes_done;
    return options_.auto_reset && (options_.episode_num <= 0 || done + 1 < options_.episode_num);
  }
  // Notes the result of the env's reset; returns an error of the reset, naming the env.
  absl::Status Began(int env_id, const EpisodeStart& start, const absl::Status& status);

  // Notes the reward of an env in row `row` of the timesteps. Returns false if the result has more
  // than a reward; the caller must then call AccountRest().
  bool AccountReward(size_t row, int env_id, const StepResult& result) {
    Slot& slot = slots_[static_cast<size_t>(env_id)];
    ++slot.length;
    slot.episode_return += result.reward;
    reward_[row] = result.reward;
    reward_sum_ += result.reward;
    // One branch for all cases, because the end of an episode is hard to predict.
    const bool ended = result.terminated | result.truncated | result.abnormal;
    return ABSL_PREDICT_TRUE(!(ended | has_more_));
  }
  // Where a step of all envs writes its results before AccountRewards(): one per env, in the order
  // of their ids. The ends are zeros.
  absl::Span<float> rewards() { return absl::MakeSpan(reward_); }
  absl::Span<uint8_t> terminated() { return absl::MakeSpan(ends_.data(), env_num_); }
  absl::Span<uint8_t> truncated() { return absl::MakeSpan(ends_.data() + env_num_, env_num_); }
  // Notes the rewards() of all envs. Returns whether an episode has ended; the caller must then
  // call AccountRest() for its env.
  bool AccountRewards();
  // Clears the ends of episodes of the previous step.
  void ForgetEnds();
  // Whether AccountRest() is needed after each step.
  bool has_more() const { return has_more_; }
  // Notes the rewards of the other players or the components, the info fields, the end of an
  // episode, and an abnormal step with its cause, if `void_cause` is an error. `result` must be
  // cleared before it is used again. kInternal after too many abnormal steps.
  absl::Status AccountRest(size_t row, int env_id, const absl::Status& void_cause,
                           StepResult* result);
  // Whether an env whose reset ended with this status must begin its next episode instead, because
  // the first observation is not finite.
  bool SkipsEpisode(int env_id, const absl::Status& status);
  // Whether a step with this failure is abnormal instead.
  bool DropsStep(const absl::Status& failure) const {
    return options_.drop_not_finite && absl::IsDataLoss(failure);
  }
  // Returns `failure` of a step whose attempts are used up, naming the env and the step.
  absl::Status StepFailed(int env_id, const absl::Status& failure) const;
  // Sets the env in `failed_row` to kError and the other envs in rows [0, stepped_rows), whose
  // steps are lost, to kNeedReset. Returns `failure`.
  absl::Status FailStep(absl::Span<const int> env_ids, size_t failed_row, size_t stepped_rows,
                        const absl::Status& failure);

  // Note that an env was asked for a step or a reset, and that it has answered. In between it is
  // busy: it is not ready and cannot be stepped, and its state is kRun or kReset.
  void NoteAsked(int env_id, EnvState state);
  void NoteAnswered(int env_id);
  bool asked(int env_id) const { return slots_[static_cast<size_t>(env_id)].asked; }
  // Notes that a step of the env is lost, and with it the episode: the env is in kNeedReset.
  void NoteLost(int env_id) { SetState(env_id, EnvState::kNeedReset); }

 private:
  // The current episode of an env.
  struct Slot {
    EnvState state = EnvState::kVoid;
    bool asked = false;
    bool ready = false;                     // whether it is in kRun and not asked
    int64_t length = 0;                     // steps of this episode
    double episode_return = 0;              // sum of its rewards
    std::vector<double> other_returns;      // in a game, returns of players 1, 2, ...
    std::vector<double> component_returns;  // [R], if the reward has components
    std::vector<uint8_t> out;               // in a game, whether each player has ended before it
    int64_t last_step = 0;                  // number of the last Step() of this env
    // Consecutive abnormal steps up to the last step. An abnormal step ends its episode, so the
    // next abnormal step is consecutive if it is the first of its episode.
    int64_t abnormal_in_a_row = 0;
    int64_t episodes_done = 0;   // towards episode_num
    int64_t episodes_begun = 0;  // since Seed() or Launch()
    uint64_t seed = 0;
    NamedValues params;
  };
  // An env whose episode is over or whose step is void.
  struct Ended {
    int row;
    bool abnormal;
    NamedValues info;
    std::vector<double> component_returns;
  };
  struct SavedState;
  struct Counter;
  static const Counter kCounters[];

  // Begins an episode of each env; closes the manager if one fails.
  absl::Status BeginEpisodes(absl::Span<const int> env_ids);

  absl::Status CheckStep(absl::Span<const int> env_ids, const ColumnsView& actions);
  // Adds the rewards of players 1, 2, ... to their returns and writes them to row `row`.
  absl::Status NoteOtherRewards(size_t row, int env_id, const StepResult& result);
  // Notes the players of a game that end in this step. The game is over when all have ended.
  absl::Status NotePlayerEnds(size_t row, int env_id, StepResult* result);
  // Copies the observations after the step for ended_players_.
  absl::Status KeepEndedObs();
  // Does the same as NoteOtherRewards() for the components of the reward, and notes their sum as
  // the reward of the row.
  absl::Status NoteRewardComponents(size_t row, int env_id, const StepResult& result);
  // Writes the info fields of a step to row `row`.
  absl::Status NoteInfo(size_t row, int env_id, StepResult* result);
  absl::Status NoteEnd(int row, int env_id, const absl::Status& void_cause, StepResult* result);
  // Makes the step in this row void; `cause` names the env, or is OK. kInternal after too many void
  // steps.
  absl::Status NoteVoid(int row, int env_id, const absl::Status& cause);
  absl::Status CheckFinite(absl::Span<const int> env_ids);
  // Makes a step void that was noted as a normal one.
  absl::Status DropNoted(int row, int env_id, const absl::Status& cause);
  // Sets the spans of timesteps_ to `count` rows; the columns never move.
  void SetRows(size_t count);
  absl::Status EndEpisodes(absl::Span<const int> env_ids);
  void FinishEpisode(int env_id, Ended* ended);

  absl::Span<uint8_t> abnormal() { return absl::MakeSpan(ends_.data() + 2 * env_num_, env_num_); }

  void SetState(int env_id, EnvState state);
  absl::Status CheckEnvId(int env_id) const;
  absl::Status CheckOpen(absl::string_view call) const;
  // The error of a call that on_episode_end makes.
  static absl::Status InCallback(absl::string_view call);
  // Calls on_episode_end. An exception is an error, and so is a Close() from it, which the caller
  // then does.
  absl::Status TellEpisodeEnd(int env_id);

  absl::Status SaveRows(StateWriter* writer) const;
  absl::Status SaveEnvs(StateWriter* writer) const;
  absl::StatusOr<SavedState> ReadState(StateReader* reader) const;
  absl::Status ReadRows(StateReader* reader, std::vector<Tensor>* columns) const;
  absl::Status LoadEnvs(StateReader* reader, absl::Span<const uint8_t> saved,
                        std::vector<int>* restarted);

  const Options options_;
  const EnvSpec spec_;
  const MutableColumnsView rows_;
  const int env_num_;
  const int64_t components_;       // of the reward; 0: it is one number
  const bool has_more_;            // whether there are several players, components, or info fields
  std::vector<int> float_fields_;  // the float32 fields of the observation, which must be finite
  std::vector<int> mask_fields_;   // the action mask of each player or -1; empty if there are none
  std::vector<Slot> slots_;
  bool closed_ = true;
  bool dynamic_seed_ = true;

  Blocks blocks_;
  std::vector<int> all_ids_;
  std::vector<int> ready_ids_;
  std::vector<int64_t> ready_sources_;  // ready_ids_ as row numbers, for GatherRows()
  bool ready_ids_known_ = false;

  // The last step.
  int64_t step_count_ = 0;
  std::vector<Ended> ended_;
  std::function<void(int env_id)> on_episode_end_;
  bool in_callback_ = false;           // within on_episode_end
  bool close_after_callback_ = false;  // Close() was called within it
  std::vector<AbnormalCause> causes_;
  std::vector<int> stepped_ids_;
  std::vector<int> reset_ids_;
  std::vector<float> reward_;
  double reward_sum_ =
      0;  // finite if and only if all rewards are: too few floats to overflow a double
  std::vector<float> other_rewards_;      // [N, players - 1]
  std::vector<float> reward_components_;  // [N, R]
  std::vector<uint8_t> ends_;             // terminated, truncated, abnormal: [3, env_num]
  std::vector<FinishedEpisode> finished_;
  std::vector<EndedPlayer> ended_players_;
  std::optional<BatchBuilder> ended_obs_;  // made when a player first ends before its game
  Timesteps timesteps_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_MANAGER_CORE_H_
