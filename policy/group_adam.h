// Adam over parameters in several pieces of memory, such as those of two networks: it takes one step and
// has one gradient norm, as if they were a single piece.
//
// Ownership: owns the moments; parameters and gradients must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_GROUP_ADAM_H_
#define DING_WORKER_POLICY_GROUP_ADAM_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/network.h"

namespace ding {

class TrainState;

struct ParameterGroup {
  std::string name;  // its name in errors and in saved states: "actor"
  absl::Span<const ParameterInfo> info;
  absl::Span<float> parameters;
  absl::Span<float> gradients;
};

// Returns the parameters of `network`, which must outlive the group.
ParameterGroup ParametersOf(absl::string_view name, Network* network);

class GroupAdam {
 public:
  // `grad_clip_norm` is the maximal norm of all gradients together; 0: not clipped.
  //   kInvalidArgument  options out of range
  static absl::StatusOr<GroupAdam> Create(std::vector<ParameterGroup> groups,
                                          const AdamOptions& options, double grad_clip_norm);
  GroupAdam(GroupAdam&&) = default;

  absl::Span<const absl::Span<float>> gradients() const { return gradients_; }
  // kInternal, with the first of them, if a gradient is NaN or infinite.
  absl::Status CheckGradients() const;
  // Takes one step by the current gradients. Writes their norm, before they are clipped, to `norm` unless it is null.
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

  std::vector<ParameterGroup> groups_;
  const AdamOptions options_;
  const double grad_clip_norm_;
  std::vector<absl::Span<float>> gradients_;
  std::vector<Adam> adams_;
  std::vector<Adam> remembered_adams_;  // empty until the first Remember()
  std::vector<std::vector<float>> remembered_parameters_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_GROUP_ADAM_H_
