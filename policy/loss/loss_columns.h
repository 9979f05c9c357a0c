// The columns that a policy gives to a loss of your own, by name: a policy refuses a loss for
// another policy when it is made, before a run collects anything.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_POLICY_LOSS_LOSS_COLUMNS_H_
#define DING_WORKER_POLICY_LOSS_LOSS_COLUMNS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/policy/loss/loss_function.h"

namespace ding {

// A loss that can tell whether it fits the columns of a policy inherits from this, too.
class ChecksColumns {
 public:
  virtual ~ChecksColumns() = default;
  // Whether the loss can be computed from columns of these names and shapes, whose values mean
  // nothing.
  //   kInvalidArgument  names what is missing
  virtual absl::Status CheckColumns(const LossInput& sample) = 0;
};

// Names with widths, as of LossColumn: 0 is [B].
using LossColumnNames = std::vector<std::pair<std::string, int64_t>>;

struct LossColumns {
  LossColumnNames batch, outputs, target;
  std::vector<std::string> numbers;
};

// The columns of the policies (loss_function.h). `actions` is the number of discrete actions,
// `width` the number of elements of a continuous one.
LossColumns DqnLossColumns(int64_t actions, bool has_mask, bool has_target_of_obs);
LossColumns ActorCriticLossColumns();
LossColumns CriticLossColumns(int64_t width, int num_critics);
LossColumns ActorLossColumns(int64_t width, int num_critics, bool has_log_prob);

// Returns what `loss` says of these columns; OK if it is null, or no ChecksColumns.
absl::Status CheckLossColumns(LossFunction* loss, const LossColumns& columns);

}  // namespace ding

#endif  // DING_WORKER_POLICY_LOSS_LOSS_COLUMNS_H_
