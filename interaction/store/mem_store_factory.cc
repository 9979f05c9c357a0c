#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace ding {
namespace {

DING_REGISTER(StoreRegistry(), "mem",
              [](const std::string& place) -> absl::StatusOr<std::unique_ptr<Store>> {
                return std::make_unique<MemStore>(place);
              });

}  // namespace
}  // namespace ding
