// The common parts of off-policy algorithms with continuous actions: the random numbers of a
// learner, the learn mode, and the policy.
#ifndef DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_POLICY_H_
#define DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_POLICY_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {

// Standard normal numbers for the rows of a training batch, such as the noise of actions that a
// learner draws.
//
// The numbers of a row are a function of the seed, the training iteration and the content of the
// row: its observation, action and reward. The numbers do not depend on the place of the row in the
// batch. So a group of learners, each with a part of a batch, draws what a single learner draws,
// and a resumed run needs no state. A row that is in a batch twice gets the same numbers twice.
//
// Shapes: noise [B, n], row-major.
// Ownership: owns working memory, which grows with the largest batch.   Threads: thread-compatible.
class RowNoise {
 public:
  // Different seeds give independent numbers.
  explicit RowNoise(uint64_t seed) : seed_(seed) {}
  uint64_t seed() const { return seed_; }
  uint64_t* mutable_seed() { return &seed_; }  // for saved states

  // Fills two spans of the same length with independent numbers. The length is a multiple of the
  // number of rows of `batch`.
  void Draw(const TransitionView& batch, int64_t train_iter, absl::Span<float> first,
            absl::Span<float> second);
  // Writes keys for further random numbers of the rows of the last Draw(), one for each row.
  // Different uses have independent keys in an iteration.
  void DrawKeys(int64_t train_iter, uint32_t use, absl::Span<uint64_t> keys) const;

 private:
  uint64_t seed_;
  std::vector<uint64_t> keys_;  // one for each row
};

// The learn mode of off-policy algorithms with continuous actions: critics, their targets,
// optimizers, saved state and report. A subclass computes the bootstrap value of a batch and the
// loss of the actor.
//
//     batch ──► bootstrap value (targets, actor) ──► loss of the critics ──► gradients ─┐
//        └────► loss of the actor, if it is due, through the critics ──────► gradients ─┴─► all steps together
//
// All gradients of an iteration are computed with the parameters before it, and no parameter
// changes before all gradients are computed. So a failed iteration changes nothing, and a group of
// learners averages once (and once more if the actor's loss depends on means over the batch). If
// the actor's observations are normalized, all networks read normalized observations.
//
// Critics with dropout have new masks in every pass of an iteration: on the next observations (the
// targets), on the actions taken, and on the actor's actions, as in DroQ (Hiraoka et al. 2022,
// algorithm 2). The learn mode draws the masks of a row as RowNoise draws its numbers.
//
// A batch has the columns of data/sample_columns.h: obs, action, reward, next_obs, discount and
// optionally weight. An iteration reports the scalars cur_lr (of the critics), critic_loss, q_value
// (the mean over critics and rows), target_q_value (the mean target) and td_error (the mean of |td
// error|); where the actor learns, actor_loss; every 10th time grad_norm, the norm of the critics'
// gradient before clipping; and |td error|, averaged over the critics, as priorities if these are
// configured. A subclass may add scalars.
//
// The optional settings kActorRate and kCriticRate change the learning rates from then on; a
// subclass may read more settings. The learners of a group step by the mean of their rates, because
// these may differ for a moment.
//
// Saved: model "model/actor/<parameter>"; train state "critic/<parameter>",
// "target_critic/<parameter>", "critic_optimizer/...", "actor_optimizer/...", "train_iter",
// "noise_seed", and what a subclass adds. Loading a model changes the actor only.
//
// Ownership: uses the actor, which must outlive it; owns critics, targets, optimizers and the
//            threads beside the caller's.
// Threads:   thread-compatible.
// Errors:    they begin with the algorithm and the number of the training iteration.
//            kInvalidArgument for data of another layout; kInternal for NaN and infinity in data,
//            losses and gradients.
class ContinuousLearnMode : public GradientLearnMode {
 public:
  // The parts that the learn mode owns.
  struct Parts {
    std::unique_ptr<ThreadTeam> team;  // null: the caller's thread alone
    std::unique_ptr<CriticEnsemble> critics;
    std::unique_ptr<CriticEnsemble> targets;
    std::vector<TrainedGroup> groups;  // critics, actor, and the groups that a subclass adds
  };
  //   kInvalidArgument    the options are out of range, or the critics read other spaces than the
  //                       actor
  //   kResourceExhausted  the system refuses a thread
  static absl::StatusOr<Parts> MakeParts(const ContinuousActor& actor,
                                         std::unique_ptr<CriticEnsemble> critics,
                                         const ContinuousOptions& options);

  ~ContinuousLearnMode() override { actor_.network().set_thread_team(nullptr); }

  absl::Status SaveModel(StateWriter* writer) const override { return actor_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return actor_.LoadModel(reader); }
  absl::Status SetData(const RowParts& data) override;

 protected:
  ContinuousLearnMode(ContinuousActor* actor, const ContinuousOptions& options, Parts parts);

  // Writes the bootstrap value of each row to `value` [B]. `noise` [B, n] is standard normal.
  virtual absl::Status ComputeNextValue(const TransitionView& batch, absl::Span<const float> noise,
                                        absl::Span<float> value) = 0;
  // Computes actor_means(), in iterations in which the actor learns.
  virtual absl::Status ComputeActorMeans(const TransitionView& /*batch*/) {
    return absl::OkStatus();
  }
  // Means over the rows of a batch that the actor's gradients depend on. A group of learners
  // averages them before ComputeActorGradients().
  virtual absl::Span<float> actor_means() { return {}; }
  // Computes the gradients of the actor, and of everything else that the subclass learns; adds
  // scalars and returns the loss. `noise` is independent of the noise of ComputeNextValue().
  virtual absl::StatusOr<double> ComputeActorGradients(const TransitionView& batch,
                                                       absl::Span<const float> noise,
                                                       NamedValues* scalars) = 0;

  // For an actor loss of your own (ContinuousOptions::own_actor_loss), which replaces the
  // algorithm's loss. ComputeOwnActorLoss() writes d_q() of the first `num_critics` critics and the
  // gradients of the further outputs `more`. `action` [B, n] is the action that the actor takes
  // now. After the pass back through the critics, AddOwnActionGradient() adds the direct gradient
  // of the loss by the action.
  bool has_own_actor_loss() const { return options_.own_actor_loss != nullptr; }
  absl::StatusOr<double> ComputeOwnActorLoss(int num_critics, absl::Span<const float> action,
                                             std::vector<LossOutput> more = {},
                                             NamedValues numbers = {});
  void AddOwnActionGradient(absl::Span<float> d_action) const;

  absl::StatusOr<int64_t> ComputeGradients(const Batch& data, const NamedValues& settings,
                                           LearnStep* step) override;
  void AfterStep(LearnStep* step) override;

  // Moves `target` towards `online`, as the targets of the critics move; both must outlive the
  // mode.
  void AddTarget(Network* online, Network* target) { targets_to_move_.push_back({online, target}); }

  ContinuousActor& actor() { return actor_; }
  CriticEnsemble& critics() { return *critics_; }
  CriticEnsemble& targets() { return *targets_; }
  // The threads for further networks of a subclass; may be null.
  ThreadTeam* team() { return team_.get(); }
  // The actions of the batch in [-1, 1], row-major.
  absl::Span<const float> unit_actions() const { return action_; }
  // The seed of the random numbers drawn while learning; a resumed run continues with the saved
  // seed.
  uint64_t noise_seed() const { return row_noise_.seed(); }

 private:
  // Reads the batch and computes the gradients of the critics.
  absl::StatusOr<TransitionView> ComputeCriticGradients(const Batch& data, LearnStep* step);
  absl::Status BackpropagateCriticLoss(const TransitionView& batch, CriticLossResult* result);
  // Computes the critics' loss of the options, after the algorithm's loss.
  absl::StatusOr<double> ComputeOwnCriticLoss(const TransitionView& batch);
  // The columns that critics and actor have in common.
  LossInput OwnLossInput(int num_critics) const;
  // Draws dropout masks for the next passes of these rows through `critics`. `use` tells the passes
  // of an iteration apart, so that each has its own masks.
  void DrawDropout(uint32_t use, int64_t rows, CriticEnsemble* critics);
  // Computes actor_means() of the group; `batch` may be an error.
  absl::Status AverageActorMeans(const absl::StatusOr<TransitionView>& batch, int64_t rows);
  void Report(const CriticLossResult& result, LearnStep* step) const;

  struct Target {
    Network* online;
    Network* target;
  };

  ContinuousActor& actor_;
  const ContinuousOptions options_;
  const std::unique_ptr<ThreadTeam> team_;  // the networks use it
  const std::unique_ptr<CriticEnsemble> critics_;
  const std::unique_ptr<CriticEnsemble> targets_;
  std::vector<Target> targets_to_move_;

  // Working space, kept between iterations.
  SampledTransitionReader reader_;
  ScratchColumns obs_;
  ScratchColumns next_obs_;
  RowNoise row_noise_;
  std::vector<uint64_t> dropout_keys_;
  std::vector<float> noise_;
  std::vector<float> actor_noise_;
  std::vector<float> action_;
  std::vector<float> next_value_;
  std::vector<float> td_error_;
  std::vector<float> d_own_action_;
  NamedValues own_scalars_;  // of the losses of the options
};

// An off-policy algorithm with continuous actions: an actor and the modes that share it. A factory
// of the algorithm fills it in.
//
// Ownership: owns actor and modes.
// Threads:   one thread at a time may use the policy, in any mode.
class ContinuousPolicy : public ModelPolicy<ContinuousActor> {
 public:
  // Creates the modes of `options`, except the learn mode.
  ContinuousPolicy(std::unique_ptr<ContinuousActor> actor, std::unique_ptr<Exploration> exploration,
                   const ContinuousOptions& options)
      : ModelPolicy(std::move(actor)) {
    if (options.modes.collect) {
      collect_ =
          std::make_unique<ContinuousCollectMode>(model_.get(), std::move(exploration), options);
    }
    if (options.modes.eval) eval_ = std::make_unique<ContinuousEvalMode>(model_.get());
    if (options.modes.command) command_ = std::make_unique<ScheduledSettings>(options.schedules);
  }

  ContinuousActor* actor() { return model_.get(); }
  void set_learn_mode(std::unique_ptr<ContinuousLearnMode> learn) { learn_ = std::move(learn); }
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_POLICY_H_
