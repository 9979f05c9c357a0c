#include "ding_worker/interaction/grpc/testing/test_credentials.h"

#include <sys/stat.h>

#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "openssl/bio.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"

namespace ding {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);  // NOLINT(google-runtime-int): as OpenSSL has it
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

void Extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  DING_CHECK(extension != nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Makes a certificate that is signed by `issuer`. Without an issuer, it is that of an authority and
// is signed by itself.
Certificate Sign(absl::string_view name, const TestCertificate& wanted, EVP_PKEY* key, X509* issuer,
                 EVP_PKEY* issuer_key) {
  static int serial = 0;
  Certificate made(X509_new());
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
  const std::time_t now = absl::ToTimeT(absl::Now());
  ASN1_TIME_set(X509_getm_notBefore(made.get()), now + absl::ToInt64Seconds(wanted.valid_from));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), now + absl::ToInt64Seconds(wanted.valid_to));
  X509_set_pubkey(made.get(), key);
  const std::string subject(name);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
  const bool is_authority = issuer == nullptr;
  if (is_authority) issuer = made.get();
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer));
  Extend(made.get(), issuer, NID_basic_constraints, is_authority ? "critical,CA:TRUE" : "CA:FALSE");
  if (!is_authority) {
    Extend(made.get(), issuer, NID_ext_key_usage, wanted.usage);
    if (!wanted.names.empty()) {
      Extend(made.get(), issuer, NID_subject_alt_name, wanted.names);
    }
  }
  DING_CHECK(X509_sign(made.get(), issuer_key, EVP_sha256()) > 0);
  return made;
}

void WriteCertificate(const std::string& path, X509* certificate) {
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  DING_CHECK(WriteFileAtomically(path, TextOf(bio)).ok()) << path;
}

}  // namespace

struct TestAuthority::Parts {
  Key key{EVP_EC_gen("P-256")};
  Certificate certificate;
};

TestAuthority::TestAuthority(absl::string_view folder, absl::string_view name,
                             const TestCertificate& certificate)
    : folder_(folder),
      path_(JoinPath(folder, absl::StrCat(name, ".pem"))),
      parts_(std::make_unique<Parts>()) {
  parts_->certificate =
      Sign(name, certificate, parts_->key.get(), /*issuer=*/nullptr, parts_->key.get());
  WriteCertificate(path_, parts_->certificate.get());
}

TestAuthority::~TestAuthority() = default;

void TestAuthority::Issue(absl::string_view name, const TestCertificate& certificate) const {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate made =
      Sign(name, certificate, key.get(), parts_->certificate.get(), parts_->key.get());
  WriteCertificate(JoinPath(folder_, absl::StrCat(name, ".pem")), made.get());
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  WritePrivateFile(JoinPath(folder_, absl::StrCat(name, ".key")), TextOf(bio));
}

void WritePrivateFile(const std::string& path, absl::string_view text) {
  DING_CHECK(WriteFileAtomically(path, text).ok()) << path;
  DING_CHECK(chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0) << path;
}

std::string TestToken(absl::string_view role) {
  return absl::StrCat("the-token-of-a-", role, "-", std::string(32, 'x'));
}

std::string TestTokens() {
  std::string text;
  for (const char* role : {"collector", "learner", "operator"}) {
    absl::StrAppend(&text, role, " ", TestToken(role), "\n");
  }
  return text;
}

}  // namespace ding
