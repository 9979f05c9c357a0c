#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Tells the other ranks this rank's type, and compares it with theirs: ranks of different types
// would wait for each other until the timeout.
absl::Status CheckSameType(absl::string_view type, const AllReduceOptions& options,
                           Rendezvous* rendezvous) {
  const Deadline deadline = Deadline::After(options.timeout);
  const auto key = [](int rank) { return absl::StrCat("all_reduce/", rank); };
  DING_RETURN_IF_ERROR(rendezvous->Set(key(options.rank), std::string(type)));
  for (int rank = 0; rank < options.world_size; ++rank) {
    if (rank == options.rank) continue;
    DING_ASSIGN_OR_RETURN(const std::string other, rendezvous->Get(key(rank), deadline.Left()));
    if (other == type) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "all-reduce group '", options.group, "': rank ", rank, " has the type '", other, "', rank ",
        options.rank, " has '", type, "', expected the same in all ranks"));
  }
  return absl::OkStatus();
}

}  // namespace

Registry<AllReduceCreator>& AllReduceRegistry() {
  static auto* const registry = new Registry<AllReduceCreator>("all-reduce");
  return *registry;
}

absl::StatusOr<std::unique_ptr<AllReduce>> create_all_reduce(absl::string_view type,
                                                             const AllReduceOptions& options,
                                                             Rendezvous* rendezvous) {
  DING_ASSIGN_OR_RETURN(const AllReduceCreator create, AllReduceRegistry().Find(type));
  DING_RETURN_IF_ERROR(CheckAllReduceOptions(options));
  if (options.world_size > 1) {
    DING_RETURN_IF_ERROR(CheckSameType(type, options, rendezvous));
  }
  return CallFactory(AllReduceRegistry().kind(), type, [&] { return create(options, rendezvous); });
}

}  // namespace ding
