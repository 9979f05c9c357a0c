// Where processes of one machine find each other.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_LOCAL_ADDRESS_H_
#define DING_WORKER_WORKER_LOCAL_ADDRESS_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ding {

// Where processes of this machine find who listens on `address`: "0.0.0.0:7235" is no place to
// connect to, and in no certificate.
inline std::string LocalAddress(const std::string& address) {
  if (absl::StartsWith(address, "0.0.0.0:")) return absl::StrCat("127.0.0.1", address.substr(7));
  if (absl::StartsWith(address, "[::]:")) return absl::StrCat("[::1]", address.substr(4));
  return address;
}

}  // namespace ding

#endif  // DING_WORKER_WORKER_LOCAL_ADDRESS_H_
