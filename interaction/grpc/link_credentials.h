// The credentials of one side of a gRPC link: the credentials that the side shows, and the
// credentials that it requires of its peer. The functions read them from the files of
// GrpcTransportOptions and check them.
//
//   tls_ca ────────► the authorities that must have signed a peer's certificate
//   tls_cert, _key ► the certificate that is shown to peers
//   token_file ────► listener: the accepted tokens, and their roles; caller: the token to show
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_GRPC_LINK_CREDENTIALS_H_
#define DING_WORKER_INTERACTION_GRPC_LINK_CREDENTIALS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "ding_worker/interaction/grpc/link_files.h"

namespace ding {

// Each option has the name of the flag that sets it (worker/program/link_flags.h). Only their owner
// may have access to files that hold a secret (tls_key, token_file).
struct GrpcTransportOptions {
  // PEM files. If all are empty, the link does not use TLS.
  std::string tls_ca;    // the authorities that sign the certificates of peers, one or more
  std::string tls_cert;  // this side's certificate, and the chain up to the authority
  std::string tls_key;   // the key of tls_cert, without a passphrase
  // Whether a listener asks its callers for a certificate.
  bool tls_client_certs = true;
  std::string token_file;  // see link_files.h; empty: no tokens
  // The role of a caller that has a token_file: "collector", "learner" or "operator".
  std::string role;
};

struct LinkCredentials {
  // PEM texts.
  std::string ca;
  std::string cert;
  std::string key;
  bool tls = false;
  // A listener accepts peers that show one of these tokens, or any peer if there are none. A caller
  // has at most one token, which it shows.
  std::vector<LinkToken> tokens;
};

// Read the credentials that a listener at `address`, or a caller of it, needs.
//   kFailedPrecondition  the address is beyond loopback, and TLS or the token is missing; or other
//                        users may read a secret file; or no peer would accept a certificate
//   kInvalidArgument     options do not fit together, or a file holds something else
//   kNotFound ...        a file cannot be read
absl::StatusOr<LinkCredentials> LoadListenerCredentials(const GrpcTransportOptions& options,
                                                        const LinkAddress& address, absl::Time now);
absl::StatusOr<LinkCredentials> LoadCallerCredentials(const GrpcTransportOptions& options,
                                                      const LinkAddress& address, absl::Time now);

// Reads and checks only the TLS files that are set, without regard to an address.
absl::StatusOr<LinkCredentials> LoadTls(const GrpcTransportOptions& options, CertificateUse use,
                                        absl::Time now);

// Why an attempt to connect has failed, for the person who set the flags.
struct ConnectFailure {
  std::string why;
  // Whether another attempt would fail in the same way.
  bool final = false;
};
// `said` is gRPC's message, `unauthenticated` whether the listener has refused the token.
ConnectFailure ExplainFailure(const std::string& said, bool unauthenticated,
                              const LinkCredentials& credentials);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_LINK_CREDENTIALS_H_
