#include "ding_worker/interaction/store/store_registry.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/compressed_store.h"

namespace ding {
namespace {

constexpr absl::string_view kCompress = "compress";

absl::StatusOr<StoreSettings> ParseSettings(absl::string_view text) {
  StoreSettings settings;
  for (const absl::string_view setting : absl::StrSplit(text, '&')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(setting, absl::MaxSplits('=', 1));
    if (parts.first.empty() || parts.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("setting '", setting, "', expected '<name>=<value>'"));
    }
    if (!settings.emplace(parts.first, parts.second).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", parts.first, "' is set twice"));
    }
  }
  return settings;
}

absl::StatusOr<std::unique_ptr<Store>> CreateChecked(absl::string_view url) {
  const size_t colon = url.find(':');
  if (colon == absl::string_view::npos) {
    return absl::InvalidArgumentError("expected '<scheme>:<place>', such as 'file:/dev/shm/run'");
  }
  const absl::string_view scheme = url.substr(0, colon);
  absl::string_view place = url.substr(colon + 1);
  StoreSettings settings;
  const size_t question = place.find('?');
  if (question != absl::string_view::npos) {
    DING_ASSIGN_OR_RETURN(settings, ParseSettings(place.substr(question + 1)));
    place = place.substr(0, question);
  }
  DING_ASSIGN_OR_RETURN(const StoreFactory create, StoreRegistry().Find(scheme));
  const Codec* codec = nullptr;
  const auto compress = settings.find(std::string(kCompress));
  if (compress != settings.end()) {
    DING_ASSIGN_OR_RETURN(codec, CodecRegistry().Find(compress->second));
    if (codec == nullptr) {
      return absl::InternalError(absl::StrCat(CodecRegistry().kind(), " '", compress->second,
                                              "' is a null pointer, expected an object"));
    }
    settings.erase(compress);
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, CallFactory("store", scheme, [&] {
                          return create(std::string(place), settings);
                        }));
  if (codec == nullptr) return store;
  return std::unique_ptr<Store>(
      std::make_unique<CompressedStore>(std::move(store), codec, std::string(url)));
}

}  // namespace

Registry<StoreFactory>& StoreRegistry() {
  static auto* const registry = new Registry<StoreFactory>("store");
  return *registry;
}

absl::Status CheckStoreSettings(const StoreSettings& settings,
                                absl::Span<const absl::string_view> known) {
  for (const auto& [name, value] : settings) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string expected = absl::StrCat("'", kCompress, "=<codec>'");
    for (const absl::string_view other : known) absl::StrAppend(&expected, ", '", other, "=...'");
    return absl::InvalidArgumentError(
        absl::StrCat("unknown setting '", name, "=", value, "', expected ", expected));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Store>> create_store(absl::string_view url) {
  absl::StatusOr<std::unique_ptr<Store>> store = CreateChecked(url);
  if (!store.ok()) return Annotate(store.status(), absl::StrCat("store '", url, "'"));
  return store;
}

}  // namespace ding
