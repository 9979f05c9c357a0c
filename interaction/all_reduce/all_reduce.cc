#include "ding_worker/interaction/all_reduce/all_reduce.h"

#include "absl/strings/str_cat.h"

namespace ding {

absl::Status CheckAllReduceOptions(const AllReduceOptions& options) {
  if (options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size &&
      options.timeout > absl::ZeroDuration()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("all-reduce group '", options.group, "': rank ", options.rank, " of ",
                   options.world_size, " with a timeout of ", absl::FormatDuration(options.timeout),
                   ", expected 0 <= rank < number of ranks, and a timeout above 0"));
}

}  // namespace ding
