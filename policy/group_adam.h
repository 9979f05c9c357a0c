// Adam over parameters in several pieces of memory, such as those of two networks: it takes one step and
// has one gradient norm, as if they were a single piece.
//
// Ownership: owns the moments; parameters and gradients must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_GROUP_ADAM_H_
#define DING_WORKER_POLICY_GROUP_ADAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/network.h"

namespace ding {

struct ParameterGroup {
  std::string name;  // its name in saved states: "actor"
  absl::Span<const ParameterInfo> info;
  absl::Span<float> parameters;
  absl::Span<float> gradients;
};

class GroupAdam {
 public:
  // `grad_clip_norm` is the maximal norm of all gradients together; 0: not clipped.
  //   kInvalidArgument  options out of range
  static absl::StatusOr<GroupAdam> Create(std::vector<ParameterGroup> groups,
                                          const AdamOptions& options, double grad_clip_norm);
  GroupAdam(GroupAdam&&) = default;

  // Calls AverageGradients() with the gradients of all groups, the learning rate and `more`.
  absl::Status Average(GradientReducer* reducer, int64_t rows, const absl::Status& status,
                       absl::Span<float> more = {});
  // Takes one step by the current gradients; returns their norm, before they are clipped.
  //   kInternal  a gradient is NaN or infinite; nothing is changed
  absl::StatusOr<double> Step();

  double lr() const { return adams_.front().lr(); }
  absl::Status set_lr(double lr);

  // Remember() keeps a copy of parameters and moments; GoBack() restores the last copy.
  void Remember();
  void GoBack();

  // Save and load the state of Adam as "<group>/...". After an error nothing is changed.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  GroupAdam(std::vector<ParameterGroup> groups, double grad_clip_norm);

  absl::Status CheckGradients() const;

  std::vector<ParameterGroup> groups_;
  double grad_clip_norm_;
  std::vector<absl::Span<float>> gradients_;
  std::vector<Adam> adams_;
  std::vector<Adam> remembered_adams_;
  std::vector<std::vector<float>> remembered_parameters_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_GROUP_ADAM_H_
