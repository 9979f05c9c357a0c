// Tests what this process's own files must contain. grpc_security_test.cc tests how peers react to
// them.

#include "ding_worker/interaction/grpc/link_credentials.h"

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;

class LinkCredentialsTest : public testing::Test {
 protected:
  LinkCredentialsTest() {
    authority_.Issue("both");
    WritePrivateFile(In("tokens"), TestTokens());
  }

  std::string In(absl::string_view name) const { return JoinPath(folder_, name); }
  GrpcTransportOptions Options(absl::string_view certificate) const {
    GrpcTransportOptions options;
    options.tls_ca = authority_.path();
    options.tls_cert = In(absl::StrCat(certificate, ".pem"));
    options.tls_key = In(absl::StrCat(certificate, ".key"));
    options.token_file = In("tokens");
    options.role = "learner";
    return options;
  }
  static LinkAddress Address(const std::string& address) {
    return ParseLinkAddress(address).value();
  }
  static absl::StatusOr<LinkCredentials> Listener(const GrpcTransportOptions& options) {
    return LoadListenerCredentials(options, Address("0.0.0.0:1"), absl::Now());
  }
  static absl::StatusOr<LinkCredentials> Caller(const GrpcTransportOptions& options) {
    return LoadCallerCredentials(options, Address("trainer.lan:1"), absl::Now());
  }
  static void ExpectBoth(const GrpcTransportOptions& options, absl::StatusCode code,
                         const testing::Matcher<std::string>& message) {
    EXPECT_THAT(Listener(options), StatusIs(code, message));
    EXPECT_THAT(Caller(options), StatusIs(code, message));
  }

  const std::string folder_ = FreshTestFolder();
  const TestAuthority authority_{folder_, "ca"};
};

TEST_F(LinkCredentialsTest, LoadsCertificatesAndTokens) {
  DING_ASSERT_OK_AND_ASSIGN(const LinkCredentials listener, Listener(Options("both")));
  EXPECT_TRUE(listener.tls);
  EXPECT_THAT(listener.tokens, SizeIs(3));
  EXPECT_THAT(listener.ca, HasSubstr("BEGIN CERTIFICATE"));
  DING_ASSERT_OK_AND_ASSIGN(const LinkCredentials caller, Caller(Options("both")));
  EXPECT_TRUE(caller.tls);
  ASSERT_THAT(caller.tokens, SizeIs(1));
  EXPECT_EQ(caller.tokens[0].token, TestToken("learner"));
  EXPECT_THAT(caller.key, HasSubstr("PRIVATE KEY"));
}

TEST_F(LinkCredentialsTest, CallerShowsTheFirstTokenOfItsRole) {
  const std::string first(32, 'a'), second(32, 'b');
  WritePrivateFile(In("tokens"), absl::StrCat("operator ", std::string(32, 'o'), "\nlearner ",
                                              first, "\nlearner ", second));
  DING_ASSERT_OK_AND_ASSIGN(const LinkCredentials caller, Caller(Options("both")));
  ASSERT_THAT(caller.tokens, SizeIs(1));
  EXPECT_EQ(caller.tokens[0].token, first);
  GrpcTransportOptions collector = Options("both");
  collector.role = "collector";
  EXPECT_THAT(Caller(collector),
              StatusIs(kFailedPrecondition, HasSubstr("no line of role 'collector'")));
}

TEST_F(LinkCredentialsTest, LoopbackNeedsNoCredentials) {
  for (const char* address : {"127.0.0.1:1", "[::1]:1", "localhost:1", "127.9.9.9:1"}) {
    DING_ASSERT_OK_AND_ASSIGN(const LinkCredentials listener,
                              LoadListenerCredentials({}, Address(address), absl::Now()));
    EXPECT_FALSE(listener.tls);
    EXPECT_THAT(listener.tokens, IsEmpty());
    EXPECT_THAT(LoadCallerCredentials({}, Address(address), absl::Now()), IsOk());
  }
}

TEST_F(LinkCredentialsTest, NamesTheMissingFlagsBeyondLoopback) {
  ExpectBoth({}, kFailedPrecondition, HasSubstr("--token_file are missing"));
  GrpcTransportOptions options = Options("both");
  options.token_file.clear();
  ExpectBoth(options, kFailedPrecondition, HasSubstr(": --token_file is missing"));
  options = Options("both");
  options.tls_ca.clear();
  ExpectBoth(options, kFailedPrecondition, HasSubstr(": --tls_ca is missing"));
  options = Options("both");
  options.tls_key.clear();
  ExpectBoth(options, kFailedPrecondition, HasSubstr(": --tls_key is missing"));
  options = Options("both");
  options.tls_cert.clear();
  ExpectBoth(options, kFailedPrecondition, HasSubstr(": --tls_cert is missing"));
  // An incomplete set of TLS files is also refused on loopback.
  EXPECT_THAT(LoadListenerCredentials(options, Address("127.0.0.1:1"), absl::Now()),
              StatusIs(kInvalidArgument, HasSubstr(": --tls_cert is missing")));
}

TEST_F(LinkCredentialsTest, CallerCertificatesAreOptional) {
  GrpcTransportOptions options = Options("both");
  options.tls_client_certs = false;
  DING_ASSERT_OK_AND_ASSIGN(const LinkCredentials with_ca, Listener(options));
  EXPECT_EQ(with_ca.ca, "") << "the listener would ask callers for a certificate";
  options.tls_ca.clear();
  EXPECT_THAT(Listener(options), IsOk());
  options = Options("both");
  options.tls_cert.clear();
  options.tls_key.clear();
  EXPECT_THAT(Caller(options), IsOk());
}

TEST_F(LinkCredentialsTest, SecretsThatOthersMayReadAreRefused) {
  for (const char* name : {"both.key", "tokens"}) {
    for (const mode_t mode : {0640, 0604, 0660, 0601}) {
      ASSERT_EQ(chmod(In(name).c_str(), mode), 0);
      ExpectBoth(Options("both"), kFailedPrecondition,
                 AllOf(HasSubstr(In(name)), HasSubstr("expected 0600")));
    }
    ASSERT_EQ(chmod(In(name).c_str(), 0400), 0);
    EXPECT_THAT(Listener(Options("both")), IsOk());
  }
}

TEST_F(LinkCredentialsTest, MissingFilesAreNamed) {
  for (const char* name : {"both.key", "both.pem", "tokens", "ca.pem"}) {
    const std::string aside = In("aside");
    ASSERT_THAT(RenamePath(In(name), aside), IsOk());
    ExpectBoth(Options("both"), kNotFound, HasSubstr(In(name)));
    ASSERT_THAT(RenamePath(aside, In(name)), IsOk());
  }
}

TEST_F(LinkCredentialsTest, FilesWithOtherContentsAreRefused) {
  const std::string key = ReadFile(In("both.key")).value();
  const std::string cert = ReadFile(In("both.pem")).value();
  const std::string damaged = absl::StrCat(cert, cert.substr(0, 200), "\n", cert.substr(300));
  for (const std::string& text : {std::string(), std::string("hello"), key, damaged}) {
    for (const char* name : {"both.pem", "ca.pem"}) {
      const std::string good = ReadFile(In(name)).value();
      WritePrivateFile(In(name), text);
      ExpectBoth(Options("both"), kInvalidArgument,
                 AllOf(HasSubstr(In(name)), HasSubstr("certificate, expected PEM")));
      WritePrivateFile(In(name), good);
    }
  }
  // An encrypted key must not ask for its passphrase on the terminal.
  const std::string encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
  for (const std::string& text : {std::string(), std::string("hello"), cert, encrypted}) {
    WritePrivateFile(In("both.key"), text);
    ExpectBoth(Options("both"), kInvalidArgument,
               AllOf(HasSubstr(In("both.key")), HasSubstr("without a passphrase")));
  }
}

TEST_F(LinkCredentialsTest, KeyOfAnotherCertificateIsRefused) {
  authority_.Issue("other");
  GrpcTransportOptions options = Options("both");
  options.tls_key = In("other.key");
  ExpectBoth(options, kFailedPrecondition, HasSubstr("does not belong to certificate"));
}

TEST_F(LinkCredentialsTest, CertificatesOutsideTheirDatesAreRefused) {
  TestCertificate old;
  old.valid_to = -absl::Minutes(1);
  TestCertificate young;
  young.valid_from = absl::Minutes(30);
  authority_.Issue("old", old);
  authority_.Issue("young", young);
  const std::string now = absl::FormatTime("now it is %Y-%m-%d ", absl::Now(), absl::UTCTimeZone());
  ExpectBoth(Options("old"), kFailedPrecondition,
             AllOf(HasSubstr("old.pem' expired at 20"), HasSubstr(now)));
  ExpectBoth(Options("young"), kFailedPrecondition,
             AllOf(HasSubstr("young.pem' is not valid before 20"), HasSubstr(now)));
  const TestAuthority old_authority(folder_, "old_ca", old);
  GrpcTransportOptions options = Options("both");
  options.tls_ca = old_authority.path();
  ExpectBoth(options, kFailedPrecondition, HasSubstr("old_ca.pem' expired at 20"));
  // An expired authority does no harm beside a valid one, so authorities can be replaced.
  WritePrivateFile(In("bundle"), absl::StrCat(ReadFile(In("old_ca.pem")).value(),
                                              ReadFile(In("ca.pem")).value()));
  options.tls_ca = In("bundle");
  EXPECT_THAT(Listener(options), IsOk());
  EXPECT_THAT(Caller(options), IsOk());
}

TEST_F(LinkCredentialsTest, CertificatesForAnotherUseAreRefused) {
  TestCertificate listens;
  listens.usage = "serverAuth";
  TestCertificate connects;
  connects.usage = "clientAuth";
  authority_.Issue("listens", listens);
  authority_.Issue("connects", connects);
  EXPECT_THAT(Listener(Options("listens")), IsOk());
  EXPECT_THAT(Caller(Options("connects")), IsOk());
  EXPECT_THAT(Listener(Options("connects")),
              StatusIs(kFailedPrecondition, HasSubstr("used to listen")));
  EXPECT_THAT(Caller(Options("listens")),
              StatusIs(kFailedPrecondition, HasSubstr("used to connect")));
}

TEST_F(LinkCredentialsTest, CertificatesOfOtherAuthoritiesAreRefused) {
  const TestAuthority other(folder_, "other_ca");
  other.Issue("stranger");
  ExpectBoth(Options("stranger"), kFailedPrecondition,
             AllOf(HasSubstr("stranger.pem' is not signed by an authority in"),
                   HasSubstr(authority_.path())));
  GrpcTransportOptions options = Options("both");
  options.tls_ca = In("both.pem");
  ExpectBoth(options, kFailedPrecondition, HasSubstr("does not belong to an authority"));
}

}  // namespace
}  // namespace ding
