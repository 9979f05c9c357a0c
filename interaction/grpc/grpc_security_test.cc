// Tests which peers are let in, and what the others are told. link_credentials_test.cc tests what
// the files of one side must contain.

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/grpc/link.grpc.pb.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "ding_worker/interaction/grpc/link_credentials.h"
#include "ding_worker/interaction/grpc/testing/tcp.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr absl::StatusCode kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kUnauthenticated = absl::StatusCode::kUnauthenticated;

// Far longer than any operation here takes: one that waits so long has hung.
constexpr absl::Duration kLong = absl::Seconds(60);
// Long enough for some failing attempts.
constexpr absl::Duration kShort = absl::Milliseconds(300);

class GrpcSecurityTest : public testing::Test {
 protected:
  GrpcSecurityTest() {
    authority_.Issue("both");
    WritePrivateFile(In("tokens"), TestTokens());
  }

  std::string In(absl::string_view name) const { return JoinPath(folder_, name); }
  GrpcTransportOptions Tls(absl::string_view certificate = "both") const {
    GrpcTransportOptions options;
    options.tls_ca = authority_.path();
    options.tls_cert = In(absl::StrCat(certificate, ".pem"));
    options.tls_key = In(absl::StrCat(certificate, ".key"));
    return options;
  }
  static GrpcTransportOptions WithoutCertificate(GrpcTransportOptions options) {
    options.tls_cert.clear();
    options.tls_key.clear();
    return options;
  }
  GrpcTransportOptions WithToken(absl::string_view role, GrpcTransportOptions options = {}) const {
    options.token_file = In("tokens");
    options.role = std::string(role);
    return options;
  }

  void Listen(const GrpcTransportOptions& options, const std::string& address = "127.0.0.1:0") {
    listener_ = GrpcTransport(options).Listen(address).value();
  }
  std::string AddressAt(absl::string_view host) const {
    const std::string& address = listener_->address();
    return absl::StrCat(host, address.substr(address.rfind(':')));
  }
  // Listens with `listener`, connects with `caller`, and returns the result.
  absl::Status Try(const GrpcTransportOptions& listener, const GrpcTransportOptions& caller,
                   absl::Duration timeout = kLong) {
    Listen(listener);
    return Connect(caller, listener_->address(), timeout);
  }
  absl::Status Connect(const GrpcTransportOptions& caller, const std::string& address,
                       absl::Duration timeout = kLong) {
    auto client = GrpcTransport(caller).Connect(address, timeout);
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    server_ = listener_->Accept(kLong).value();
    EXPECT_THAT(client_->Send("hello", kLong), IsOk());
    EXPECT_EQ(server_->Receive(kLong).value(), "hello");
    return absl::OkStatus();
  }

  const std::string folder_ = FreshTestFolder();
  const TestAuthority authority_{folder_, "ca"};
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> client_;
  std::unique_ptr<Connection> server_;
};

TEST_F(GrpcSecurityTest, TokenDeterminesTheIdentity) {
  for (const GrpcTransportOptions& tls : {GrpcTransportOptions(), Tls()}) {
    for (const std::string role : {"collector", "learner", "operator"}) {
      ASSERT_THAT(Try(WithToken("", tls), WithToken(role, tls)), IsOk());
      EXPECT_EQ(server_->identity(), role);
      EXPECT_EQ(client_->identity(), "");
      const auto session = Session::Start(std::move(server_), {}).value();
      EXPECT_EQ(session->identity(), role);
    }
  }
  // A token that the listener does not ask for gives no identity.
  ASSERT_THAT(Try(Tls(), WithToken("learner", Tls())), IsOk());
  EXPECT_EQ(server_->identity(), "");
}

TEST_F(GrpcSecurityTest, PeerWithoutAValidTokenIsRefused) {
  Listen(WithToken(""));
  EXPECT_THAT(Connect({}, listener_->address()),
              StatusIs(kUnauthenticated, AllOf(HasSubstr(listener_->address()),
                                               HasSubstr("asks for a token, and none was shown"))));
  EXPECT_THAT(listener_->Accept(kShort), StatusIs(kDeadlineExceeded));
  WritePrivateFile(In("others"), absl::StrCat("learner ", TestToken("learner"), "x"));
  GrpcTransportOptions wrong = WithToken("learner", Tls());
  wrong.token_file = In("others");
  EXPECT_THAT(Try(WithToken("", Tls()), wrong),
              StatusIs(kUnauthenticated,
                       AllOf(HasSubstr("does not know the token"), Not(HasSubstr("xxx")))));
  EXPECT_THAT(listener_->Accept(kShort), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(Connect(WithToken("learner", Tls()), listener_->address()), IsOk());
}

// A token can therefore be replaced while the listener knows both the old and the new one.
TEST_F(GrpcSecurityTest, EachConnectReadsTheFiles) {
  WritePrivateFile(In("own"), absl::StrCat("learner ", std::string(40, 'y')));
  GrpcTransportOptions options = WithToken("learner");
  options.token_file = In("own");
  GrpcTransport transport(options);
  Listen(WithToken(""));
  EXPECT_THAT(transport.Connect(listener_->address(), kLong), StatusIs(kUnauthenticated));
  WritePrivateFile(In("own"), absl::StrCat("learner ", TestToken("learner")));
  EXPECT_THAT(transport.Connect(listener_->address(), kLong), IsOk());
}

TEST_F(GrpcSecurityTest, CertificateMustNameTheHost) {
  Listen(Tls());
  EXPECT_THAT(Connect(Tls(), AddressAt("127.0.0.1")), IsOk());
  EXPECT_THAT(Connect(Tls(), AddressAt("localhost")), IsOk());
  EXPECT_THAT(Connect(Tls(), AddressAt("127.0.0.2"), kShort), Not(IsOk()));
  TestCertificate elsewhere;
  elsewhere.names = "DNS:trainer.lan,IP:192.0.2.7";
  authority_.Issue("elsewhere", elsewhere);
  EXPECT_THAT(Try(Tls("elsewhere"), Tls()),
              StatusIs(kUnauthenticated, HasSubstr("certificate belongs to another host")));
  TestCertificate name_only;
  name_only.names = "DNS:localhost";
  authority_.Issue("name_only", name_only);
  Listen(Tls("name_only"));
  EXPECT_THAT(Connect(Tls(), AddressAt("localhost")), IsOk());
  EXPECT_THAT(Connect(Tls(), AddressAt("127.0.0.1")), StatusIs(kUnauthenticated));
  Listen(Tls(), "[::1]:0");
  EXPECT_THAT(Connect(Tls(), AddressAt("[::1]")), IsOk());
}

TEST_F(GrpcSecurityTest, ListensOnAllAddressesOfTheMachine) {
  Listen(WithToken("", Tls()), "0.0.0.0:0");
  EXPECT_THAT(Connect(WithToken("learner", Tls()), AddressAt("127.0.0.1")), IsOk());
  Listen(WithToken("", Tls()), "[::]:0");
  EXPECT_THAT(Connect(WithToken("learner", Tls()), AddressAt("[::1]")), IsOk());
  EXPECT_THAT(Connect(WithToken("learner", Tls()), AddressAt("127.0.0.1")), IsOk());
}

TEST_F(GrpcSecurityTest, UnknownHostName) {
  Listen(Tls());
  const std::string address = "no-such-host.invalid:5000";
  EXPECT_THAT(Connect(WithToken("learner", Tls()), address, kShort),
              StatusIs(kDeadlineExceeded, HasSubstr(address)));
}

TEST_F(GrpcSecurityTest, OnlyOneSideSpeaksTls) {
  Listen(Tls());
  EXPECT_THAT(Connect({}, listener_->address(), kShort),
              StatusIs(kDeadlineExceeded,
                       AllOf(HasSubstr(listener_->address()), HasSubstr("that speaks TLS"))));
  EXPECT_THAT(Try({}, Tls()), StatusIs(kUnauthenticated, HasSubstr("does not speak TLS")));
}

TEST_F(GrpcSecurityTest, CallerCertificatesAreOptional) {
  GrpcTransportOptions tls_only = Tls();
  tls_only.tls_client_certs = false;
  EXPECT_THAT(Try(tls_only, WithoutCertificate(Tls())), IsOk());
  EXPECT_THAT(Try(Tls(), WithoutCertificate(Tls()), kShort),
              StatusIs(kDeadlineExceeded, HasSubstr("that asks for a certificate")));
}

TEST_F(GrpcSecurityTest, CertificatesOfOtherAuthoritiesAreRefused) {
  const TestAuthority other(folder_, "other_ca");
  other.Issue("stranger");
  GrpcTransportOptions stranger = Tls("stranger");
  stranger.tls_ca = other.path();
  EXPECT_THAT(Try(stranger, Tls()),
              StatusIs(kUnauthenticated, HasSubstr("is not signed by an authority in --tls_ca")));
  // The stranger trusts both authorities, and the listener trusts only one.
  const std::string bundle = In("bundle");
  WritePrivateFile(
      bundle, absl::StrCat(ReadFile(other.path()).value(), ReadFile(authority_.path()).value()));
  stranger.tls_ca = bundle;
  EXPECT_THAT(Try(Tls(), stranger, kShort),
              StatusIs(kDeadlineExceeded, HasSubstr("that does not accept our certificate")));
  EXPECT_THAT(listener_->Accept(kShort), StatusIs(kDeadlineExceeded));
}

// The caller is made by hand, because GrpcTransport checks its own certificate and would not
// connect.
TEST_F(GrpcSecurityTest, CallersWithInvalidCertificatesAreRefused) {
  TestCertificate old, young, listens;
  old.valid_to = -absl::Minutes(1);
  young.valid_from = absl::Minutes(30);
  listens.usage = "serverAuth";
  authority_.Issue("old", old);
  authority_.Issue("young", young);
  authority_.Issue("listens", listens);
  Listen(Tls());
  for (const std::string name : {"both", "old", "young", "listens"}) {
    grpc::SslCredentialsOptions shown;
    shown.pem_root_certs = ReadFile(authority_.path()).value();
    shown.pem_cert_chain = ReadFile(In(absl::StrCat(name, ".pem"))).value();
    shown.pem_private_key = ReadFile(In(absl::StrCat(name, ".key"))).value();
    const auto stub =
        link::Link::NewStub(grpc::CreateChannel(listener_->address(), grpc::SslCredentials(shown)));
    grpc::ClientContext context;
    const auto stream = stub->Open(&context);
    const auto server = listener_->Accept(name == "both" ? kLong : kShort);
    EXPECT_EQ(server.ok(), name == "both") << name;
    context.TryCancel();
  }
}

// An eavesdropper sends all bytes of a caller, token and message, once more.
TEST_F(GrpcSecurityTest, ReplayedBytesAreRefusedWithTls) {
  for (const bool tls : {true, false}) {
    const GrpcTransportOptions options = tls ? Tls() : GrpcTransportOptions();
    Listen(WithToken("", options));
    Wire wire(listener_->address());
    ASSERT_THAT(Connect(WithToken("learner", options), wire.address()), IsOk());
    wire.Cut();
    const auto socket = Socket::ConnectedTo(listener_->address());
    socket->Write(wire.sent());
    const auto again = listener_->Accept(tls ? kShort : kLong);
    // Without TLS the bytes open another connection, which is why it is limited to loopback.
    EXPECT_EQ(again.ok(), !tls);
  }
}

// The certificate of the listener expires while it listens.
TEST_F(GrpcSecurityTest, ExpiredCertificateRefusesOnlyNewConnections) {
  TestCertificate soon;
  soon.valid_to = absl::Seconds(2);
  authority_.Issue("soon", soon);
  Listen(Tls("soon"));
  absl::Status status;
  while (status.ok()) {
    status = Connect(Tls(), listener_->address());
    absl::SleepFor(kShort);
  }
  EXPECT_THAT(status, StatusIs(kUnauthenticated, HasSubstr("or not valid now")));
  // Earlier connections stay open.
  EXPECT_THAT(client_->Send("hello", kLong), IsOk());
  EXPECT_THAT(server_->Receive(kLong), IsOk());
}

}  // namespace
}  // namespace ding
