#include "ding_worker/interaction/store/store_registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/codec.h"
#include "ding_worker/interaction/store/compressed_store.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Store>> CreateChecked(absl::string_view url) {
  const size_t colon = url.find(':');
  if (colon == absl::string_view::npos) {
    return absl::InvalidArgumentError("expected '<scheme>:<place>', such as 'file:/dev/shm/run'");
  }
  const absl::string_view scheme = url.substr(0, colon);
  absl::string_view place = url.substr(colon + 1);
  absl::string_view setting;
  const size_t question = place.find('?');
  if (question != absl::string_view::npos) {
    setting = place.substr(question + 1);
    place = place.substr(0, question);
    if (!absl::ConsumePrefix(&setting, "compress=")) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown setting '", setting, "', expected 'compress=<codec>'"));
    }
  }
  DING_ASSIGN_OR_RETURN(const StoreFactory create, StoreRegistry().Find(scheme));
  const Codec* codec = nullptr;
  if (question != absl::string_view::npos) {
    DING_ASSIGN_OR_RETURN(codec, CodecRegistry().Find(setting));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, create(std::string(place)));
  if (codec == nullptr) return store;
  return std::unique_ptr<Store>(
      std::make_unique<CompressedStore>(std::move(store), codec, std::string(url)));
}

}  // namespace

Registry<StoreFactory>& StoreRegistry() {
  static auto* const registry = new Registry<StoreFactory>("store");
  return *registry;
}

absl::StatusOr<std::unique_ptr<Store>> create_store(absl::string_view url) {
  absl::StatusOr<std::unique_ptr<Store>> store = CreateChecked(url);
  if (!store.ok()) return Annotate(store.status(), absl::StrCat("store '", url, "'"));
  return store;
}

}  // namespace ding
