// Registers MemStore as "mem:", and FileStore as "file:".
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Store>> CreateMemStore(const std::string& name,
                                                      const StoreSettings& settings) {
  DING_RETURN_IF_ERROR(CheckStoreSettings(settings, {}));
  return std::make_unique<MemStore>(name);
}

DING_REGISTER(StoreRegistry(), "mem", CreateMemStore,
              "mem:NAME: memory of this process, for runs in one process and for tests");

absl::StatusOr<std::unique_ptr<Store>> CreateFileStore(const std::string& folder,
                                                       const StoreSettings& settings) {
  DING_RETURN_IF_ERROR(CheckStoreSettings(settings, {}));
  return FileStore::Create(folder);
}

DING_REGISTER(StoreRegistry(), "file", CreateFileStore,
              "file:/FOLDER: files, on tmpfs or on a file system that machines share");

}  // namespace
}  // namespace ding
