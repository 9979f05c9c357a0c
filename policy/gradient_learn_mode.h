// A learn mode that takes one step of Adam for each batch. All algorithms that learn by gradients
// share it.
//
//     batch ──► ComputeGradients() ──► mean over a group of learners ──► finite? ──► clip, Adam ──► AfterStep()
//                                                                                        ▲
//     settings ──► learning rates ───────────────────────────────────────────────────────┘
//
// An algorithm derives from this class and names what it trains: groups of parameters, each with
// its gradients, optimizer, clipping and learning rate. The algorithm computes the gradients of a
// batch, and does further work after the step (target networks, statistics). All gradients are
// computed and checked before a parameter changes, so a failed iteration changes nothing. The
// header first declares two parts: TrainState, the saved state, and GroupAdam, the optimizer of a
// group.
//
// An iteration reports two scalars of the first group: cur_lr, its learning rate, and grad_norm,
// the norm of its gradient before clipping.
//
// Ownership: owns the optimizers; the parameters must outlive it.
// Threads:   thread-compatible.
// Errors:    begin with the algorithm and the number of the training iteration. kInternal for
//            gradients that are NaN or infinite, kInvalidArgument for rates out of range.
#ifndef DING_WORKER_POLICY_GRADIENT_LEARN_MODE_H_
#define DING_WORKER_POLICY_GRADIENT_LEARN_MODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/device/device_network.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The state that a learn mode saves beside its model: optimizers, networks, counters, random
// streams.
//
// The parts are saved in the order in which they were added. Load() reads and checks all parts
// before it changes one.
//
// Ownership: keeps pointers to the parts, which must outlive it and stay where they are.
// Threads:   thread-compatible.
//
// Example, in the constructor of a learn mode:
//   state()->AddNetwork("target_model", target_.get());
//   state()->AddSeed("noise_seed", &noise_seed_);
class TrainState {
 public:
  // Parameters with the layout `info`, as tensors "<scope>/<parameter>".
  void AddParameters(const std::string& scope, const std::vector<ParameterInfo>& info,
                     absl::Span<float> values);
  void AddNetwork(const std::string& scope, Network* network);
  void AddAdam(const std::string& scope, Adam* adam);
  void AddRng(const std::string& name, Rng* rng);
  void AddCount(const std::string& name, int64_t* count);
  void AddSeed(const std::string& name, uint64_t* seed);
  // A finite number in [least, most]; the bounds may be infinite.
  void AddNumber(const std::string& name, double least, double most,
                 const std::function<double()>& get, const std::function<void(double)>& set);

  absl::Status Save(StateWriter* writer) const;
  //   kNotFound, kInvalidArgument  a part is missing or does not fit; nothing is changed
  absl::Status Load(StateReader* reader);

 private:
  struct Part {
    std::function<absl::Status(StateWriter*)> save;
    // Reads and checks the part, and returns a function that makes the read part the current one.
    std::function<absl::StatusOr<std::function<void()>>(StateReader*)> read;
  };

  template <typename T>
  void Add(std::function<absl::Status(StateWriter*)> save,
           std::function<absl::StatusOr<T>(StateReader*)> read,
           std::function<void(const T&)> apply);

  std::vector<Part> parts_;
};

// Parameters of one optimizer in GroupAdam, such as the parameters of a network.
struct ParameterGroup {
  std::string name;  // its name in errors and in saved states: "actor"
  absl::Span<const ParameterInfo> info;
  absl::Span<float> parameters;
  absl::Span<float> gradients;
  // The network that owns the parameters. Null: no network does, and they are on the host.
  Network* network = nullptr;
};

// Returns the parameters of `network`, which must outlive the group.
ParameterGroup ParametersOf(absl::string_view name, Network* network);

// Adam over parameters in several pieces of memory, such as the parameters of two networks. It has
// one step and one gradient norm for all pieces, as if they were a single one.
//
// Ownership: owns the moments; parameters and gradients must outlive it.
// Threads:   thread-compatible.
class GroupAdam {
 public:
  // `grad_clip_norm` is the maximal norm of all gradients together; 0: not clipped.
  //   kInvalidArgument  options out of range
  static absl::StatusOr<GroupAdam> Create(std::vector<ParameterGroup> groups,
                                          const AdamOptions& options, double grad_clip_norm);
  GroupAdam(GroupAdam&&) = default;

  // Returns the gradients on the host, to read and change them before Step().
  absl::Span<const absl::Span<float>> gradients();
  // Returns kInternal if a gradient is NaN or infinite, and names the first one.
  absl::Status CheckGradients() const;
  // Takes one step by the current gradients. Writes their norm before clipping to `norm`, unless it
  // is null.
  //   kInternal  a gradient is NaN or infinite; nothing is changed
  absl::Status Step(double* norm = nullptr);

  double lr() const { return adams_.front().lr(); }
  absl::Status set_lr(double lr);

  // Remember() keeps a copy of parameters and moments; GoBack() restores the last copy.
  void Remember();
  void GoBack();

  // Adds the optimizers to `state`, as "<scope>/<group>/..."; without a scope as "<group>/...".
  void AddTo(TrainState* state, absl::string_view scope = "");

 private:
  GroupAdam(std::vector<ParameterGroup> groups, const AdamOptions& options, double grad_clip_norm);
  absl::Status StepOnDevices(double* norm);

  std::vector<ParameterGroup> groups_;
  std::vector<DeviceNetwork*> devices_;  // of each group; null: on the host
  bool any_device_ = false;
  const AdamOptions options_;
  const double grad_clip_norm_;
  std::vector<absl::Span<float>> gradients_;
  std::vector<Adam> adams_;
  std::vector<Adam> remembered_adams_;  // empty until the first Remember()
  std::vector<std::vector<float>> remembered_parameters_;
};

// Returns the error for a loss that is not finite. `name` names it, such as "the critics' loss".
// The error names the row of the first td error that is not finite, if there is one.
absl::Status LossError(absl::string_view name, double loss, absl::Span<const float> td_error);

// Computes your own loss. Its td errors, if it has any, replace `td_error`.
//   kInternal  the loss threw an exception, or its td errors are not finite or not as many as
//              `td_error`
absl::StatusOr<LossValue> ComputeOwnLoss(LossFunction* loss, const LossInput& input,
                                         absl::Span<float> td_error = {});

// The threads that share the passes of each update; null if `threads` is 1.
//   kInvalidArgument    `threads` is not 1 to 64
//   kResourceExhausted  the system refuses a thread
absl::StatusOr<std::unique_ptr<ThreadTeam>> MakeLearnTeam(int threads);

// How a learn mode describes itself, and how it learns.
struct LearnDescription {
  std::string algorithm;  // begins messages
  std::string info;       // as in LearnMode
  LearnAttributes attributes;
  // Averages gradients with the other learners of a group; null: a single learner.
  GradientReducer* reducer = nullptr;
  std::vector<std::string> monitor_vars;
  ProgressVars progress_vars = {{"loss", "total_loss"}};
  // Whether the learners of a group step by the mean of their rates, which may differ for a moment.
  bool averages_rates = true;
  // Iterations between two reports of grad_norm. A step that measures it takes longer than a step
  // that does not.
  int64_t norm_period = 1;
};

// Parameters that are trained together.
struct TrainedGroup {
  GroupAdam adam;
  std::string rate_setting = "lr";  // the setting that changes its learning rate
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

  // Computes the gradients of the groups that are due, and adds scalars and priorities to `step`.
  // Returns the number of rows over which the gradients are means. A subclass overrides this
  // function or Forward().
  virtual absl::StatusOr<int64_t> ComputeGradients(const Batch& /*data*/,
                                                   const NamedValues& /*settings*/,
                                                   LearnStep* /*step*/) {
    return absl::UnimplementedError("the algorithm computes no gradients");
  }
  // Called after all steps of the iteration; train_iter() then counts the iteration.
  virtual void AfterStep(LearnStep* /*step*/) {}

  // The parts of an iteration, for algorithms that take several steps per batch. They begin a
  // report, read the rates, average the gradients and `more` numbers with the other learners, and
  // step. Call Average() even if there was an error (`status`), because the other learners wait for
  // it.
  void BeginReport(LearnStep* step) const;
  absl::Status ReadRates(const NamedValues& settings);
  absl::Status Average(int64_t rows, const absl::Status& status, absl::Span<float> more = {});
  absl::Status Step(LearnStep* step);

  // Reports td_error, the mean of |td_error| over `rows`, and |td_error| as priorities if these are
  // configured.
  void ReportTdErrors(absl::Span<const float> td_error, int64_t rows, LearnStep* step) const;

  // Adds the number of iterations to the saved state and to messages.
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
