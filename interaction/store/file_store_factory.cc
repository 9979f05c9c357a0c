#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace ding {
namespace {

DING_REGISTER(StoreRegistry(), "file", FileStore::Create);

}  // namespace
}  // namespace ding
