#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"

#include "ding_worker/base/call_factory.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<AllReduceCreator>& AllReduceRegistry() {
  static auto* const registry = new Registry<AllReduceCreator>("all-reduce");
  return *registry;
}

absl::StatusOr<std::unique_ptr<AllReduce>> create_all_reduce(absl::string_view type,
                                                             const AllReduceOptions& options,
                                                             Rendezvous* rendezvous) {
  DING_ASSIGN_OR_RETURN(const AllReduceCreator create, AllReduceRegistry().Find(type));
  return CallFactory(AllReduceRegistry().kind(), type, [&] { return create(options, rendezvous); });
}

}  // namespace ding
