// The address at which processes of one machine find each other.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_LOCAL_ADDRESS_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_LOCAL_ADDRESS_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ding {

// Returns where processes of this machine connect to a server that listens on `address`: one cannot
// connect to "0.0.0.0:7235", and no certificate names it.
inline std::string LocalAddress(const std::string& address) {
  if (absl::StartsWith(address, "0.0.0.0:")) return absl::StrCat("127.0.0.1", address.substr(7));
  if (absl::StartsWith(address, "[::]:")) return absl::StrCat("[::1]", address.substr(4));
  return address;
}

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_LOCAL_ADDRESS_H_
