#include "ding_worker/interaction/grpc/link_files.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "openssl/bio.h"
#include "openssl/crypto.h"
#include "openssl/err.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "openssl/x509_vfy.h"
#include "openssl/x509v3.h"

namespace ding {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<BIO> Reader(const PemFile& file) {
  return Owned<BIO>(BIO_new_mem_buf(file.text.data(), static_cast<int>(file.text.size())));
}

// Makes OpenSSL fail where it would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

// Returns at least one certificate.
absl::StatusOr<std::vector<Owned<X509>>> ReadCertificates(const PemFile& file) {
  std::vector<Owned<X509>> certificates;
  const Owned<BIO> reader = Reader(file);
  while (X509* const next = PEM_read_bio_X509(reader.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(next);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty() || !at_end) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", file.path, "' ",
                     certificates.empty() ? "holds no certificate" : "holds a damaged certificate",
                     ", expected PEM: -----BEGIN CERTIFICATE-----"));
  }
  return certificates;
}

absl::StatusOr<Owned<EVP_PKEY>> ReadKey(const PemFile& file) {
  const Owned<BIO> reader = Reader(file);
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", file.path,
                     "' holds no private key that can be read, expected PEM without a passphrase: "
                     "-----BEGIN PRIVATE KEY-----"));
  }
  return key;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm fields = {};
  ASN1_TIME_to_tm(time, &fields);
  return absl::FromTM(fields, absl::UTCTimeZone());
}

std::string Date(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::Status CheckDates(const X509& certificate, const PemFile& file, absl::Time now) {
  const absl::Time from = ToTime(X509_get0_notBefore(&certificate));
  const absl::Time to = ToTime(X509_get0_notAfter(&certificate));
  if (now < from) {
    return absl::FailedPreconditionError(absl::StrCat("certificate '", file.path,
                                                      "' is not valid before ", Date(from),
                                                      ", and now it is ", Date(now)));
  }
  if (now > to) {
    return absl::FailedPreconditionError(absl::StrCat("certificate '", file.path, "' expired at ",
                                                      Date(to), ", and now it is ", Date(now)));
  }
  return absl::OkStatus();
}

int Purpose(CertificateUse use) {
  return use == CertificateUse::kListener ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT;
}

absl::StatusOr<LinkToken> ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  // The words are not quoted: one of them may be the secret.
  if (words.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", words.size(), " words, expected a role and a token"));
  }
  if (words[0] != "collector" && words[0] != "learner" && words[0] != "operator") {
    return absl::InvalidArgumentError(
        "does not begin with a role, expected collector, learner or operator");
  }
  const absl::string_view token = words[1];
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("has a token of ", token.size(),
                                                   " characters, expected ", kMinTokenBytes, " to ",
                                                   kMaxTokenBytes));
  }
  if (!std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError("has a token with characters that cannot be sent");
  }
  return LinkToken{std::string(words[0]), std::string(token)};
}

}  // namespace

absl::Status CheckAuthorities(const PemFile& ca, absl::Time now) {
  DING_ASSIGN_OR_RETURN(const std::vector<Owned<X509>> certificates, ReadCertificates(ca));
  absl::Status status;
  for (const Owned<X509>& certificate : certificates) {
    absl::Status each = X509_check_ca(certificate.get()) == 0
                            ? absl::FailedPreconditionError(absl::StrCat(
                                  "certificate '", ca.path,
                                  "' does not belong to an authority: it cannot sign others"))
                            : CheckDates(*certificate, ca, now);
    if (each.ok()) return each;
    if (status.ok()) status = each;
  }
  return status;
}

absl::Status CheckOwnCertificate(const PemFile& cert, const PemFile& key, CertificateUse use,
                                 absl::Time now) {
  DING_ASSIGN_OR_RETURN(const std::vector<Owned<X509>> chain, ReadCertificates(cert));
  DING_ASSIGN_OR_RETURN(const Owned<EVP_PKEY> private_key, ReadKey(key));
  X509* const own = chain.front().get();
  const bool belongs = X509_check_private_key(own, private_key.get()) == 1;
  ERR_clear_error();
  if (!belongs) {
    return absl::FailedPreconditionError(
        absl::StrCat("key '", key.path, "' does not belong to certificate '", cert.path, "'"));
  }
  DING_RETURN_IF_ERROR(CheckDates(*own, cert, now));
  if (X509_check_purpose(own, Purpose(use), /*ca=*/0) != 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "certificate '", cert.path, "' may not be used to ",
        use == CertificateUse::kListener ? "listen (serverAuth)" : "connect (clientAuth)"));
  }
  return absl::OkStatus();
}

absl::Status CheckSignedBy(const PemFile& ca, const PemFile& cert, CertificateUse use,
                           absl::Time now) {
  DING_ASSIGN_OR_RETURN(const std::vector<Owned<X509>> authorities, ReadCertificates(ca));
  DING_ASSIGN_OR_RETURN(const std::vector<Owned<X509>> chain, ReadCertificates(cert));
  const Owned<X509_STORE> store(X509_STORE_new());
  for (const Owned<X509>& authority : authorities)
    X509_STORE_add_cert(store.get(), authority.get());
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between);
  X509_STORE_CTX_set_purpose(context.get(), Purpose(use));
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()), absl::ToTimeT(now));
  const bool accepted = X509_verify_cert(context.get()) == 1;
  const absl::string_view why =
      X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  sk_X509_free(between);
  ERR_clear_error();
  if (accepted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "certificate '", cert.path, "' is not signed by an authority in '", ca.path, "': ", why));
}

absl::StatusOr<std::vector<LinkToken>> ParseLinkTokens(absl::string_view text,
                                                       absl::string_view file) {
  std::vector<LinkToken> tokens;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view content = absl::StripAsciiWhitespace(line);
    if (content.empty() || content.front() == '#') continue;
    absl::StatusOr<LinkToken> token = ParseLine(content);
    const std::string where = absl::StrCat("token file '", file, "': line ", number);
    if (!token.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(where, " ", token.status().message()));
    }
    if (!RoleOfToken(tokens, token->token).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " repeats an earlier token, expected a new one"));
    }
    if (tokens.size() == kMaxTokens) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " is one too many, expected ", kMaxTokens, " tokens at most"));
    }
    tokens.push_back(*std::move(token));
  }
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token file '", file, "' has no token, expected lines of a role and a token"));
  }
  return tokens;
}

int IndexOfToken(const std::vector<LinkToken>& tokens, absl::string_view token) {
  int index = -1;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].token.size() == token.size() &&
        CRYPTO_memcmp(tokens[i].token.data(), token.data(), token.size()) == 0) {
      index = static_cast<int>(i);
    }
  }
  return index;
}

absl::string_view RoleOfToken(const std::vector<LinkToken>& tokens, absl::string_view token) {
  const int index = IndexOfToken(tokens, token);
  return index < 0 ? absl::string_view() : tokens[static_cast<size_t>(index)].role;
}

}  // namespace ding
