#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/redis/redis_connection.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/store/sharded_store.h"
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

// Splits HOST:PORT, where an IPv6 address is in brackets. Returns whether it has this form.
bool ParseServer(absl::string_view text, RedisServerAddress* server) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(text.substr(colon + 1), &server->port))
    return false;
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") != absl::ConsumeSuffix(&host, "]")) return false;
  server->host = std::string(host);
  return true;
}

// Returns what holds for all servers.
absl::StatusOr<RedisServerAddress> ParseSettings(bool tls, const StoreSettings& settings) {
  std::vector<absl::string_view> known = {kPasswordFile, kUser};
  if (tls) known.insert(known.end(), {kTlsCa, kTlsCert, kTlsKey});
  DING_RETURN_IF_ERROR(CheckStoreSettings(settings, known));
  const auto setting = [&settings](absl::string_view name) {
    const auto found = settings.find(std::string(name));
    return found == settings.end() ? "" : found->second;
  };
  RedisServerAddress server;
  server.password_file = setting(kPasswordFile);
  server.user = setting(kUser);
  if (!server.password_file.empty()) {
    DING_RETURN_IF_ERROR(ReadRedisPassword(server.password_file).status());
  } else if (!server.user.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "user '", server.user, "' has no password: name its file by '&password_file=/FILE'"));
  }
  if (!tls) return server;
  server.tls = {setting(kTlsCa), setting(kTlsCert), setting(kTlsKey)};
  if (server.tls.ca.empty()) {
    return absl::InvalidArgumentError(
        "'tls_ca' is missing: name the file of the authority that has signed the certificate of "
        "Redis by '?tls_ca=/FILE'");
  }
  DING_RETURN_IF_ERROR(CheckRedisTlsFiles(server.tls));
  return server;
}

// `place` is HOST:PORT/PREFIX or HOST:PORT,HOST:PORT,.../PREFIX.
absl::StatusOr<std::unique_ptr<Store>> Create(absl::string_view scheme, const std::string& place,
                                              const StoreSettings& settings) {
  if (absl::StrContains(place, '@')) {
    return absl::InvalidArgumentError(
        "a password in a URL would be printed and logged: write it to a file, and name the file by "
        "'?password_file=/FILE'");
  }
  DING_ASSIGN_OR_RETURN(const RedisServerAddress common, ParseSettings(scheme == kTls, settings));
  const size_t slash = place.find('/');
  std::vector<ShardedStore::Part> parts;
  for (const absl::string_view name : absl::StrSplit(place.substr(0, slash), ',')) {
    RedisStore::Options options;
    options.server = common;
    if (slash == std::string::npos || !ParseServer(name, &options.server)) {
      return absl::InvalidArgumentError(absl::StrCat("expected '", scheme,
                                                     ":HOST:PORT/PREFIX', or several HOST:PORT "
                                                     "with ',' between them"));
    }
    options.prefix = place.substr(slash + 1);
    if (std::any_of(parts.begin(), parts.end(),
                    [&](const auto& part) { return part.name == name; })) {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' is there twice"));
    }
    parts.push_back({std::string(name), [options] { return RedisStore::Create(options); }});
  }
  if (parts.size() == 1) return parts.front().open();
  return ShardedStore::Create(absl::StrCat(scheme, ":", place), std::move(parts));
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
