// Fuzzes the addresses in flags and the certificate files of links: the parsers accept or refuse
// any bytes.
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "ding_worker/interaction/grpc/link_files.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(LinkAddressFuzz, ParsesOrRefuses) {
  constexpr const char* kGood[] = {"127.0.0.1:50051", "[fd00::1]:9", "trainer-1.lan:65535"};
  int read = 0;
  Fuzz(15000, [&](Mutator* mutator) {
    const char* const good = kGood[mutator->rng()->UniformInt(std::size(kGood))];
    const absl::StatusOr<LinkAddress> address = ParseLinkAddress(mutator->Mutate(good));
    if (!address.ok()) {
      EXPECT_THAT(address.status(), StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
      return;
    }
    ++read;
    EXPECT_GE(address->port, 0);
    EXPECT_LE(address->port, 65535);
    // The text of a parsed address means the same address.
    DING_ASSERT_OK_AND_ASSIGN(const LinkAddress again, ParseLinkAddress(address->ToString()));
    EXPECT_EQ(again.ToString(), address->ToString());
    EXPECT_EQ(again.loopback(), address->loopback());
  });
  EXPECT_GT(read, 0);
}

TEST(LinkAddressTest, NamesOfHostsAndContainers) {
  for (const char* const name :
       {"trainer.lan", "rl_coordinator", "_dns.trainer", "trainer_1.my-run.svc"}) {
    DING_ASSERT_OK_AND_ASSIGN(const LinkAddress address,
                              ParseLinkAddress(absl::StrCat(name, ":7235")));
    EXPECT_EQ(address.target(), absl::StrCat("dns:///", name, ":7235"));
    EXPECT_FALSE(address.loopback());
  }
}

TEST(LinkAddressTest, AnErrorSaysWhatIsWrong) {
  const auto error = [](const std::string& address) {
    return std::string(ParseLinkAddress(address).status().message());
  };
  EXPECT_THAT(error("rl_coordinator"), HasSubstr("it has no port"));
  EXPECT_THAT(error("trainer:65536"), HasSubstr("its port is not a number from 0 to 65535"));
  EXPECT_THAT(error("trainer:"), HasSubstr("its port is not a number"));
  EXPECT_THAT(error("rl coordinator:1"),
              HasSubstr("'rl coordinator' is neither a number nor a name"));
  EXPECT_THAT(error("127.0.0.256:1"), HasSubstr("'127.0.0.256' is neither"));
  EXPECT_THAT(error(":1"), HasSubstr("'' is neither"));
}

TEST(CertificatesFuzz, AcceptsOrRefuses) {
  const std::string folder = FreshTestFolder();
  TestAuthority authority(folder, "ca");
  authority.Issue("both");
  const auto read = [&](const std::string& name) {
    const std::string path = JoinPath(folder, name);
    return PemFile{path, ReadFile(path).value()};
  };
  const PemFile ca{authority.path(), ReadFile(authority.path()).value()};
  const PemFile cert = read("both.pem");
  const PemFile key = read("both.key");
  const absl::Time now = absl::Now();
  int refused = 0;
  const auto check = [&refused](const absl::Status& status) {
    if (status.ok()) return;
    ++refused;
    EXPECT_THAT(status.code(),
                AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition))
        << status;
  };
  Fuzz(1000, [&](Mutator* mutator) {
    const auto mutant = [&](const PemFile& file) {
      return PemFile{file.path, mutator->Mutate(file.text)};
    };
    const PemFile bad_ca = mutant(ca);
    const PemFile bad_cert = mutant(cert);
    check(CheckAuthorities(bad_ca, now));
    check(CheckOwnCertificate(bad_cert, key, CertificateUse::kListener, now));
    check(CheckOwnCertificate(cert, mutant(key), CertificateUse::kCaller, now));
    check(CheckSignedBy(bad_ca, cert, CertificateUse::kCaller, now));
    check(CheckSignedBy(ca, bad_cert, CertificateUse::kListener, now));
  });
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace ding
