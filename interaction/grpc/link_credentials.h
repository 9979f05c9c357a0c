// What a side of a gRPC link proves of itself and asks of the other: the files of
// GrpcTransportOptions, read and checked.
//
//   tls_ca ────────► whose signature a peer's certificate must have
//   tls_cert, _key ► what is shown to peers
//   token_file ────► listener: who may come in, and as what; caller: what is shown to the listener
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_GRPC_LINK_CREDENTIALS_H_
#define DING_WORKER_INTERACTION_GRPC_LINK_CREDENTIALS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "ding_worker/interaction/grpc/link_tokens.h"

namespace ding {

// Of the names of the flags that set them (worker/link_flags.h). Files that hold a secret (tls_key,
// token_file) may be readable by their owner alone.
struct GrpcTransportOptions {
  // PEM files. All empty: no TLS.
  std::string tls_ca;    // who signs the certificates of peers; may be several
  std::string tls_cert;  // own certificate, and those between it and the authority
  std::string tls_key;   // of tls_cert, without a passphrase
  // Whether who connects must show a certificate, too.
  bool tls_client_certs = true;
  std::string token_file;  // see link_tokens.h; empty: no tokens
  // Of who connects, with a token_file: "collector", "learner" or "operator".
  std::string role;
};

struct LinkCredentials {
  // PEM texts.
  std::string ca;
  std::string cert;
  std::string key;
  bool tls = false;
  // Listener: whom it lets in; none: anybody. Caller: the one that it shows, or none.
  std::vector<LinkToken> tokens;
};

// Reads what a listener at `address`, or a caller of it, needs.
//   kFailedPrecondition  the address is beyond loopback, and TLS or the token is missing; a file
//                        that others may read, or that no peer would accept
//   kInvalidArgument     options that do not go together; a file with something else in it
//   kNotFound ...        a file cannot be read
absl::StatusOr<LinkCredentials> LoadListenerCredentials(const GrpcTransportOptions& options,
                                                        const LinkAddress& address, absl::Time now);
absl::StatusOr<LinkCredentials> LoadCallerCredentials(const GrpcTransportOptions& options,
                                                      const LinkAddress& address, absl::Time now);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_LINK_CREDENTIALS_H_
