#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/redis/redis_connection.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace ding {
namespace {

constexpr char kPasswordFile[] = "password_file";

// `place` is HOST:PORT/PREFIX, where an IPv6 address is in brackets.
absl::StatusOr<std::unique_ptr<Store>> Create(const std::string& place,
                                              const StoreSettings& settings) {
  DING_RETURN_IF_ERROR(CheckStoreSettings(settings, {kPasswordFile}));
  if (absl::StrContains(place, '@')) {
    return absl::InvalidArgumentError(
        "a password in a URL would be printed and logged: write it to a file, and name the file by "
        "'?password_file=/FILE'");
  }
  RedisStore::Options options;
  const size_t slash = place.find('/');
  absl::string_view host = absl::string_view(place).substr(0, slash);
  const size_t colon = host.rfind(':');
  if (slash == std::string::npos || colon == absl::string_view::npos ||
      !absl::SimpleAtoi(host.substr(colon + 1), &options.server.port)) {
    return absl::InvalidArgumentError("expected 'redis:HOST:PORT/PREFIX'");
  }
  host = host.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") != absl::ConsumeSuffix(&host, "]")) {
    return absl::InvalidArgumentError("expected 'redis:HOST:PORT/PREFIX'");
  }
  options.server.host = std::string(host);
  options.prefix = place.substr(slash + 1);
  const auto file = settings.find(kPasswordFile);
  if (file != settings.end()) {
    DING_RETURN_IF_ERROR(ReadRedisPassword(file->second).status());
    options.server.password_file = file->second;
  }
  return RedisStore::Create(options);
}

DING_REGISTER(StoreRegistry(), "redis", Create,
              "redis:HOST:PORT/PREFIX: a Redis server, for several machines");

}  // namespace
}  // namespace ding
