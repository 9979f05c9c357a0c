// Adam over parameters that lie in several pieces of memory, such as those of two networks: one
// step and one gradient norm, as if they lay in one.
//
// Ownership: owns the moments; parameters and gradients are lent and must outlive it.
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
  std::string name;  // in states: "actor"
  absl::Span<const ParameterInfo> info;
  absl::Span<float> parameters;
  absl::Span<float> gradients;
};

class GroupAdam {
 public:
  // `grad_clip_norm` is of all gradients together; 0: not clipped.
  //   kInvalidArgument  options out of range
  static absl::StatusOr<GroupAdam> Create(std::vector<ParameterGroup> groups,
                                          const AdamOptions& options, double grad_clip_norm);
  GroupAdam(GroupAdam&&) = default;

  // What AverageGradients() says, of the gradients of all groups, of the learning rate and of `more`.
  absl::Status Average(GradientReducer* reducer, int64_t rows, const absl::Status& status,
                       absl::Span<float> more = {});
  // One step by the gradients as they are now; returns their norm, 0 if it is not clipped.
  //   kInternal  a gradient is NaN or infinite: nothing is changed
  absl::StatusOr<double> Step();

  double lr() const { return adams_.front().lr(); }
  absl::Status set_lr(double lr);

  // Remembers parameters and moments, and goes back to what was remembered last.
  void Remember();
  void GoBack();

  // "<group>/..." as Adam says. After an error nothing is changed.
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
