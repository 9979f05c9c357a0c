// The flags of every program that connects to a coordinator, or is one: --tls_ca, --tls_cert,
// --tls_key, --tls_client_certs and --token_file (GrpcTransportOptions documents them).
//
// Threads: to be called from main(), after the flags are parsed.
#ifndef DING_WORKER_WORKER_PROGRAM_LINK_FLAGS_H_
#define DING_WORKER_WORKER_PROGRAM_LINK_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/grpc/link_credentials.h"

namespace ding {

// The description of these flags for help pages.
extern const char kLinkFlagsHelp[];

// Makes the paths in these flags absolute (paths.h). To be called before they are used.
absl::Status MakeLinkFlagsAbsolute();

// Options for a process that connects as `role` ("collector", "learner" or "operator"); if `role`
// is empty, for one that listens.
GrpcTransportOptions LinkOptions(absl::string_view role);

// The flags as they were given, to be passed on to a process that is started on this machine.
std::vector<std::string> LinkFlags();

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROGRAM_LINK_FLAGS_H_
