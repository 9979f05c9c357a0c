#include "ding_worker/worker/program/link_flags.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "gflags/gflags.h"

DEFINE_string(tls_ca, "", "PEM file: authority that signs the certificates of the others");
DEFINE_string(tls_cert, "", "PEM file: certificate of this process");
DEFINE_string(tls_key, "", "PEM file: key of --tls_cert");
DEFINE_bool(tls_client_certs, true, "whether a coordinator asks workers for certificates");
DEFINE_string(token_file, "", "file with lines of a role and its token");

namespace ding {

const char kLinkFlagsHelp[] =
    R"(  --tls_ca=FILE         TLS: the authority that signs the others' certificates, in PEM
  --tls_cert=FILE         certificate of this process, and its key. A coordinator needs them, and a
  --tls_key=FILE          worker or operator, too, unless the coordinator has --notls_client_certs
  --token_file=FILE     who is let in: lines of a role (collector, learner, operator) and its token
                          Beyond this machine's loopback, TLS and a token are needed.
                          tools/make_certs makes all these files; docs/how_to/secure_cluster.md says more
)";

absl::Status MakeLinkFlagsAbsolute() {
  return MakeAbsolute({&FLAGS_tls_ca, &FLAGS_tls_cert, &FLAGS_tls_key, &FLAGS_token_file});
}

GrpcTransportOptions LinkOptions(absl::string_view role) {
  GrpcTransportOptions options;
  options.tls_ca = FLAGS_tls_ca;
  options.tls_cert = FLAGS_tls_cert;
  options.tls_key = FLAGS_tls_key;
  options.tls_client_certs = FLAGS_tls_client_certs;
  options.token_file = FLAGS_token_file;
  options.role = std::string(role);
  return options;
}

std::vector<std::string> LinkFlags() {
  return {absl::StrCat("--tls_ca=", FLAGS_tls_ca), absl::StrCat("--tls_cert=", FLAGS_tls_cert),
          absl::StrCat("--tls_key=", FLAGS_tls_key),
          absl::StrCat("--tls_client_certs=", FLAGS_tls_client_certs ? "true" : "false"),
          absl::StrCat("--token_file=", FLAGS_token_file)};
}

}  // namespace ding
