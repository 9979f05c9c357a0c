#include "ding_worker/interaction/grpc/link_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ding {
namespace {

// The longest name of a host, by RFC 1035.
constexpr size_t kMaxNameBytes = 253;

// Whether `name` can be the name of a host, such as "trainer-1.lan", or of a container, such as
// "rl_coordinator": Docker allows underscores. Its last part must contain a letter; otherwise it is a
// mistyped numeric address.
bool IsHostName(absl::string_view name) {
  const absl::string_view last = name.substr(name.rfind('.') + 1);
  const auto is_word = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
  return name.size() <= kMaxNameBytes && is_word(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_word(c) || c == '-' || c == '.'; }) &&
         std::any_of(last.begin(), last.end(), absl::ascii_isalpha);
}

bool IsV4(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsV6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

std::string LinkAddress::ToString() const {
  return kind == Kind::kV6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

std::string LinkAddress::target() const {
  switch (kind) {
    case Kind::kV4:
      return absl::StrCat("ipv4:", ToString());
    case Kind::kV6:
      return absl::StrCat("ipv6:", ToString());
    case Kind::kName:
      return absl::StrCat("dns:///", ToString());
  }
  return "";
}

bool LinkAddress::loopback() const {
  in_addr v4;
  in6_addr v6;
  if (kind == Kind::kV4) {
    return inet_pton(AF_INET, host.c_str(), &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
  }
  return kind == Kind::kV6 && inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<LinkAddress> ParseLinkAddress(const std::string& address) {
  LinkAddress parsed;
  parsed.authority = address;
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  const bool brackets = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  parsed.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  parsed.kind = brackets            ? LinkAddress::Kind::kV6
                : IsV4(parsed.host) ? LinkAddress::Kind::kV4
                                    : LinkAddress::Kind::kName;
  const bool host_ok = !host.empty() && (brackets ? IsV6(parsed.host)
                                                  : IsV4(parsed.host) || IsHostName(parsed.host));
  const bool has_port = colon != std::string::npos;
  if (!has_port || !host_ok ||
      !absl::SimpleAtoi(absl::string_view(address).substr(colon + 1), &parsed.port) ||
      parsed.port < 0 || parsed.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "' is not an address: ",
        !has_port  ? "it has no port"
        : !host_ok ? absl::StrCat("'", host,
                                  "' is neither a number nor a name of letters, digits, '-', '_' "
                                  "and '.'")
                   : "its port is not a number from 0 to 65535",
        "; expected an address like 127.0.0.1:50051, [::1]:50051 or trainer.lan:50051"));
  }
  return parsed;
}

}  // namespace ding
