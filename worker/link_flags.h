// The flags of every program that speaks to a coordinator, or is one: --tls_ca, --tls_cert,
// --tls_key, --tls_client_certs and --token_file (GrpcTransportOptions says what they mean).
//
// Threads: for main(), after the flags are parsed.
#ifndef DING_WORKER_WORKER_LINK_FLAGS_H_
#define DING_WORKER_WORKER_LINK_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/grpc/link_credentials.h"

namespace ding {

// For their help pages.
extern const char kLinkFlagsHelp[];

// Makes the paths in them absolute (paths.h); before they are used.
absl::Status MakeLinkFlagsAbsolute();

// For a process that connects as `role`: "collector", "learner" or "operator"; empty: it listens.
GrpcTransportOptions LinkOptions(absl::string_view role);

// The flags as they were given, for a process that is started on this machine.
std::vector<std::string> LinkFlags();

}  // namespace ding

#endif  // DING_WORKER_WORKER_LINK_FLAGS_H_
