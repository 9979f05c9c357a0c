#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Store>> Create(const std::string& folder,
                                              const StoreSettings& settings) {
  DING_RETURN_IF_ERROR(CheckStoreSettings(settings, {}));
  return FileStore::Create(folder);
}

DING_REGISTER(StoreRegistry(), "file", Create,
              "file:/FOLDER: files, on tmpfs or on a file system that machines share");

}  // namespace
}  // namespace ding
