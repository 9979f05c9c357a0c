#include "ding_worker/interaction/grpc/link_credentials.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/grpc/link_files.h"

namespace ding {
namespace {

bool WantsTls(const GrpcTransportOptions& options) {
  return !options.tls_ca.empty() || !options.tls_cert.empty() || !options.tls_key.empty();
}

struct Needed {
  absl::string_view flag;
  const std::string& value;
};
// Returns the flags of `needed` that have no value.
std::vector<std::string> Missing(const std::vector<Needed>& needed) {
  std::vector<std::string> missing;
  for (const Needed& each : needed) {
    if (each.value.empty()) missing.push_back(absl::StrCat("--", each.flag));
  }
  return missing;
}

std::string MissingText(const std::vector<std::string>& flags) {
  return absl::StrCat(absl::StrJoin(flags, ", "), flags.size() == 1 ? " is" : " are", " missing");
}

// Checks that the options are complete. `tls` lists the flags that TLS needs on this side.
absl::Status CheckComplete(const GrpcTransportOptions& options, const LinkAddress& address,
                           absl::string_view what, std::vector<Needed> tls) {
  const std::vector<std::string> missing_tls = Missing(tls);
  if (!address.loopback()) {
    tls.push_back({"token_file", options.token_file});
    const std::vector<std::string> missing = Missing(tls);
    if (missing.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        what, " ", address.ToString(),
        ", which is beyond this machine's loopback, needs TLS and a token: ", MissingText(missing),
        " (tools/make_certs makes the files)"));
  }
  if (!WantsTls(options) || missing_tls.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", address.ToString(), " with TLS: ", MissingText(missing_tls)));
}

absl::StatusOr<PemFile> ReadPem(const std::string& path) {
  DING_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  return PemFile{path, std::move(text)};
}

absl::StatusOr<std::vector<LinkToken>> LoadTokens(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(path));
  return ParseLinkTokens(text, path);
}

}  // namespace

absl::StatusOr<LinkCredentials> LoadTls(const GrpcTransportOptions& options, CertificateUse use,
                                        absl::Time now) {
  LinkCredentials credentials;
  credentials.tls = true;
  PemFile ca, cert, key;
  if (!options.tls_ca.empty()) {
    DING_ASSIGN_OR_RETURN(ca, ReadPem(options.tls_ca));
    DING_RETURN_IF_ERROR(CheckAuthorities(ca, now));
  }
  if (!options.tls_cert.empty()) {
    DING_ASSIGN_OR_RETURN(cert, ReadPem(options.tls_cert));
    key.path = options.tls_key;
    DING_ASSIGN_OR_RETURN(key.text, ReadPrivateFile(key.path));
    DING_RETURN_IF_ERROR(CheckOwnCertificate(cert, key, use, now));
    if (!options.tls_ca.empty()) DING_RETURN_IF_ERROR(CheckSignedBy(ca, cert, use, now));
  }
  credentials.ca = std::move(ca.text);
  credentials.cert = std::move(cert.text);
  credentials.key = std::move(key.text);
  return credentials;
}

absl::StatusOr<LinkCredentials> LoadListenerCredentials(const GrpcTransportOptions& options,
                                                        const LinkAddress& address,
                                                        absl::Time now) {
  std::vector<Needed> tls = {{"tls_cert", options.tls_cert}, {"tls_key", options.tls_key}};
  if (options.tls_client_certs) tls.push_back({"tls_ca", options.tls_ca});
  DING_RETURN_IF_ERROR(CheckComplete(options, address, "listening on", std::move(tls)));
  LinkCredentials credentials;
  if (WantsTls(options)) {
    DING_ASSIGN_OR_RETURN(credentials, LoadTls(options, CertificateUse::kListener, now));
    // The authorities were read only to check the listener's own certificate.
    if (!options.tls_client_certs) credentials.ca.clear();
  }
  if (!options.token_file.empty()) {
    DING_ASSIGN_OR_RETURN(credentials.tokens, LoadTokens(options.token_file));
  }
  return credentials;
}

absl::StatusOr<LinkCredentials> LoadCallerCredentials(const GrpcTransportOptions& options,
                                                      const LinkAddress& address, absl::Time now) {
  std::vector<Needed> tls = {{"tls_ca", options.tls_ca}};
  if (!options.tls_cert.empty()) tls.push_back({"tls_key", options.tls_key});
  if (!options.tls_key.empty()) tls.push_back({"tls_cert", options.tls_cert});
  DING_RETURN_IF_ERROR(CheckComplete(options, address, "connecting to", std::move(tls)));
  LinkCredentials credentials;
  if (WantsTls(options)) {
    DING_ASSIGN_OR_RETURN(credentials, LoadTls(options, CertificateUse::kCaller, now));
  }
  if (options.token_file.empty()) return credentials;
  DING_ASSIGN_OR_RETURN(const std::vector<LinkToken> tokens, LoadTokens(options.token_file));
  const auto own = std::find_if(tokens.begin(), tokens.end(), [&options](const LinkToken& token) {
    return token.role == options.role;
  });
  if (own == tokens.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "token file '", options.token_file, "' has no line of role '", options.role, "'"));
  }
  credentials.tokens.push_back(*own);
  return credentials;
}

ConnectFailure ExplainFailure(const std::string& said, bool unauthenticated,
                              const LinkCredentials& credentials) {
  const auto says = [&said](absl::string_view words) { return absl::StrContains(said, words); };
  if (unauthenticated) return {said, true};
  if (credentials.tls && says("certificate verify failed")) {
    return {"its certificate is not signed by an authority in --tls_ca, or not valid now", true};
  }
  if (credentials.tls && says("is not in peer certificate")) {
    return {"its certificate belongs to another host", true};
  }
  if (credentials.tls && says("wrong version number")) {
    return {"it does not speak TLS, and --tls_ca asks for it", true};
  }
  // A listener closes a connection like this if it cannot understand the bytes, or if it rejects
  // the caller's certificate in TLS 1.3. It may also just have stopped.
  if (says("Socket closed") || says("Connection reset by peer")) {
    return {absl::StrCat("it closes new connections at once, as a listener does ",
                         !credentials.tls           ? "that speaks TLS (--tls_ca is missing here)"
                         : credentials.cert.empty() ? "that asks for a certificate (--tls_cert and "
                                                      "--tls_key are missing here)"
                                                    : "that does not accept our certificate")};
  }
  constexpr absl::string_view kLastError = "last error: ";
  const size_t last_error = absl::string_view(said).rfind(kLastError);
  return {last_error == std::string::npos ? said : said.substr(last_error + kLastError.size())};
}

}  // namespace ding
