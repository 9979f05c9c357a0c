#include "ding_worker/interaction/all_reduce/all_reduce.h"

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

constexpr int kMaxRanks = 1 << 16;
constexpr absl::Duration kMaxTimeout = absl::Hours(24 * 365);

}  // namespace

absl::Status CheckAllReduceOptions(const AllReduceOptions& options) {
  if (options.world_size >= 1 && options.world_size <= kMaxRanks && options.rank >= 0 &&
      options.rank < options.world_size && options.timeout > absl::ZeroDuration() &&
      options.timeout <= kMaxTimeout) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("all-reduce group '", options.group, "': rank ", options.rank, " of ",
                   options.world_size, " with a timeout of ", absl::FormatDuration(options.timeout),
                   ", expected 0 <= rank < number of ranks <= ", kMaxRanks,
                   ", and a timeout above 0 and of at most ", absl::FormatDuration(kMaxTimeout)));
}

}  // namespace ding
