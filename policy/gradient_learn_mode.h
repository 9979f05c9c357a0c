// A learn mode that takes one step of Adam for each batch: what all algorithms that learn by gradients share.
//
//     batch ──► ComputeGradients() ──► mean over a group of learners ──► finite? ──► clip, Adam ──► AfterStep()
//                                                                                        ▲
//     settings ──► learning rates ───────────────────────────────────────────────────────┘
//
// An algorithm derives from it, and says what it trains: groups of parameters, each with its gradients, optimizer, clipping
// and learning rate. It computes the gradients of a batch, and does the rest after the step (target networks, statistics).
// All gradients are computed and checked before a parameter changes, so that a failed iteration changes nothing.
//
// An iteration reports the scalars cur_lr, of the first group, and grad_norm: its norm before clipping.
//
// Ownership: owns the optimizers; the parameters must outlive it.
// Threads:   thread-compatible.
// Errors:    begin with the algorithm and the number of the training iteration. kInternal for gradients that are NaN or
//            infinite, kInvalidArgument for rates out of range.
#ifndef DING_WORKER_POLICY_GRADIENT_LEARN_MODE_H_
#define DING_WORKER_POLICY_GRADIENT_LEARN_MODE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/group_adam.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/train_state.h"

namespace ding {

// Returns the error of a loss that is not finite, such as "the critics' loss", with the first of the td errors behind it.
absl::Status LossError(absl::string_view name, double loss, absl::Span<const float> td_error);

// What a learn mode says of itself, and how it learns.
struct LearnDescription {
  std::string algorithm;  // begins messages
  std::string info;       // as in LearnMode
  LearnAttributes attributes;
  // Averages gradients with the other learners of a group; null: a single learner.
  GradientReducer* reducer = nullptr;
  std::vector<std::string> monitor_vars;
  ProgressVars progress_vars = {{"loss", "total_loss"}};
  // Whether a group of learners steps by the mean of their rates, which may differ for a moment.
  bool averages_rates = true;
  // Iterations between two reports of grad_norm, whose measurement takes longer than a step without it.
  int64_t norm_period = 1;
};

// Parameters that are trained together.
struct TrainedGroup {
  GroupAdam adam;
  std::string rate_setting = "lr";  // the setting that is its learning rate from then on
  int64_t period = 1;               // training iterations between two steps; 1 in the first group
  bool learned = true;              // false: it keeps its values; not in the first group
};

class GradientLearnMode : public LearnMode {
 public:
  LearnAttributes attributes() const override { return description_.attributes; }
  std::vector<std::string> monitor_vars() const override { return description_.monitor_vars; }
  ProgressVars progress_vars() const override { return description_.progress_vars; }
  std::string info() const override { return description_.info; }

  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override;

  absl::Status SaveTrainState(StateWriter* writer) const override { return state_.Save(writer); }
  absl::Status LoadTrainState(StateReader* reader) override { return state_.Load(reader); }

 protected:
  GradientLearnMode(LearnDescription description, std::vector<TrainedGroup> groups)
      : description_(std::move(description)), groups_(std::move(groups)) {}
  // For a single group, with the default setting.
  GradientLearnMode(LearnDescription description, GroupAdam adam);

  // Computes the gradients of the groups that are due, adds scalars and priorities to `step`, and returns the rows over
  // which the gradients are means. A subclass overrides this or Forward().
  virtual absl::StatusOr<int64_t> ComputeGradients(const Batch& /*data*/,
                                                   const NamedValues& /*settings*/,
                                                   LearnStep* /*step*/) {
    return absl::UnimplementedError("the algorithm computes no gradients");
  }
  // Called when all steps of the iteration are taken; train_iter() counts it.
  virtual void AfterStep(LearnStep* /*step*/) {}

  // The parts of an iteration, for algorithms that take several steps for a batch: begin a report, read the rates, average
  // the gradients and `more` numbers with the other learners, who wait for it also after an error `status`, and step.
  void BeginReport(LearnStep* step) const;
  absl::Status ReadRates(const NamedValues& settings);
  absl::Status Average(int64_t rows, const absl::Status& status, absl::Span<float> more = {});
  absl::Status Step(LearnStep* step);

  // Makes the number of iterations a part of the state, and of messages.
  void AddTrainIter();

  LearnDescription& description() { return description_; }
  const LearnDescription& description() const { return description_; }
  GroupAdam& adam(size_t group = 0) { return groups_[group].adam; }
  TrainState* state() { return &state_; }
  int64_t train_iter() const { return train_iter_; }  // complete iterations
  // Whether this group takes a step in the iteration.
  bool IsDue(size_t group) const;

 private:
  absl::Status Update(const Batch& data, const NamedValues& settings, LearnStep* step);

  LearnDescription description_;
  std::vector<TrainedGroup> groups_;
  TrainState state_;
  int64_t train_iter_ = 0;
  bool saves_train_iter_ = false;

  // Working space, kept between iterations.
  std::vector<absl::Span<float>> averaged_;
  std::vector<float> rates_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_GRADIENT_LEARN_MODE_H_
