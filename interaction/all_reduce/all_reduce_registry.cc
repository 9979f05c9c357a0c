#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"

namespace ding {

Registry<AllReduceCreator>& AllReduceRegistry() {
  static auto* const registry = new Registry<AllReduceCreator>("all-reduce");
  return *registry;
}

}  // namespace ding
