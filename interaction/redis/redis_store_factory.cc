#include <memory>
#include <string>
#include <vector>

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

constexpr char kPlain[] = "redis";
constexpr char kTls[] = "rediss";
constexpr char kPasswordFile[] = "password_file";
constexpr char kUser[] = "user";
constexpr char kTlsCa[] = "tls_ca";
constexpr char kTlsCert[] = "tls_cert";
constexpr char kTlsKey[] = "tls_key";

// `place` is HOST:PORT/PREFIX, where an IPv6 address is in brackets.
absl::StatusOr<std::unique_ptr<Store>> Create(absl::string_view scheme, const std::string& place,
                                              const StoreSettings& settings) {
  const bool tls = scheme == kTls;
  std::vector<absl::string_view> known = {kPasswordFile, kUser};
  if (tls) known.insert(known.end(), {kTlsCa, kTlsCert, kTlsKey});
  DING_RETURN_IF_ERROR(CheckStoreSettings(settings, known));
  if (absl::StrContains(place, '@')) {
    return absl::InvalidArgumentError(
        "a password in a URL would be printed and logged: write it to a file, and name the file by "
        "'?password_file=/FILE'");
  }
  const absl::Status malformed =
      absl::InvalidArgumentError(absl::StrCat("expected '", scheme, ":HOST:PORT/PREFIX'"));
  RedisStore::Options options;
  const size_t slash = place.find('/');
  absl::string_view host = absl::string_view(place).substr(0, slash);
  const size_t colon = host.rfind(':');
  if (slash == std::string::npos || colon == absl::string_view::npos ||
      !absl::SimpleAtoi(host.substr(colon + 1), &options.server.port)) {
    return malformed;
  }
  host = host.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") != absl::ConsumeSuffix(&host, "]")) return malformed;
  options.server.host = std::string(host);
  options.prefix = place.substr(slash + 1);
  const auto setting = [&settings](absl::string_view name) {
    const auto found = settings.find(std::string(name));
    return found == settings.end() ? "" : found->second;
  };
  options.server.password_file = setting(kPasswordFile);
  if (!options.server.password_file.empty()) {
    DING_RETURN_IF_ERROR(ReadRedisPassword(options.server.password_file).status());
  }
  options.server.user = setting(kUser);
  if (!options.server.user.empty() && options.server.password_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("user '", options.server.user,
                     "' has no password: name its file by '&password_file=/FILE'"));
  }
  if (tls) {
    options.server.tls = {setting(kTlsCa), setting(kTlsCert), setting(kTlsKey)};
    if (options.server.tls.ca.empty()) {
      return absl::InvalidArgumentError(
          "'tls_ca' is missing: name the file of the authority that has signed the certificate of "
          "Redis by '?tls_ca=/FILE'");
    }
    DING_RETURN_IF_ERROR(CheckRedisTlsFiles(options.server.tls));
  }
  return RedisStore::Create(options);
}

DING_REGISTER(
    StoreRegistry(), kPlain,
    [](const std::string& place, const StoreSettings& settings) {
      return Create(kPlain, place, settings);
    },
    "redis:HOST:PORT/PREFIX: a Redis server, for several machines");

DING_REGISTER(
    StoreRegistry(), kTls,
    [](const std::string& place, const StoreSettings& settings) {
      return Create(kTls, place, settings);
    },
    "rediss:HOST:PORT/PREFIX?tls_ca=/FILE: the same with TLS");

}  // namespace
}  // namespace ding
