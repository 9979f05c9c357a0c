#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Store>> Create(const std::string& name,
                                              const StoreSettings& settings) {
  DING_RETURN_IF_ERROR(CheckStoreSettings(settings, {}));
  return std::make_unique<MemStore>(name);
}

DING_REGISTER(StoreRegistry(), "mem", Create,
              "mem:NAME: memory of this process, for runs in one process and for tests");

}  // namespace
}  // namespace ding
