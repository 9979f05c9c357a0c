// TLS between a store and a redis-server: that it works, and what is refused.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/testing/tcp.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "ding_worker/interaction/redis/redis_connection.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/store/testing/store_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A Redis with TLS, and the files of its callers.
class TlsRedis {
 public:
  explicit TlsRedis(const std::string& password = "")
      : folder_(FreshTestFolder()), authority_(folder_, "ca"), other_(folder_, "other") {
    authority_.Issue("redis");
    TestCertificate worker;
    worker.usage = "clientAuth";
    authority_.Issue("worker", worker);
    RedisServer::Options options;
    options.password = password;
    options.tls = {authority_.path(), File("redis.pem"), File("redis.key")};
    auto started = RedisServer::Start(options);
    EXPECT_THAT(started, IsOk());
    server_ = *std::move(started);
  }

  std::string File(absl::string_view name) const { return JoinPath(folder_, name); }
  const TestAuthority& authority() const { return authority_; }
  const TestAuthority& other() const { return other_; }
  RedisServer* server() { return server_.get(); }
  RedisServerAddress address() const {
    RedisServerAddress address = server_->address();
    address.tls.cert = File("worker.pem");
    address.tls.key = File("worker.key");
    return address;
  }
  // From now on Redis shows another certificate.
  void Show(absl::string_view name) {
    ASSERT_THAT(
        server_->Command({"CONFIG", "SET", "tls-cert-file", File(absl::StrCat(name, ".pem")),
                          "tls-key-file", File(absl::StrCat(name, ".key"))}),
        IsOk());
  }
  absl::StatusOr<std::unique_ptr<RedisStore>> Store(const RedisServerAddress& address) const {
    RedisStore::Options options;
    options.server = address;
    options.prefix = "runs/7";
    return RedisStore::Create(options);
  }

 private:
  const std::string folder_;
  const TestAuthority authority_;
  const TestAuthority other_;
  std::unique_ptr<RedisServer> server_;
};

// Returns an empty store in the Redis that all tests of the process share.
std::unique_ptr<Store> NewStore(int64_t part_bytes) {
  static TlsRedis* const redis = new TlsRedis;
  static int stores = 0;
  RedisStore::Options options;
  options.server = redis->address();
  options.prefix = absl::StrCat("run-", ++stores);
  options.part_bytes = part_bytes;
  return RedisStore::Create(options).value();
}

INSTANTIATE_TEST_SUITE_P(RedisTls, StoreConformance, testing::Values(StoreMaker([] {
                           return NewStore(RedisStore::kMaxPartBytes);
                         })));
INSTANTIATE_TEST_SUITE_P(RedisTlsInParts, StoreConformance,
                         testing::Values(StoreMaker([] { return NewStore(1000); })));

// Matches a refusal of TLS: it is none that another attempt would repair.
auto Refused(absl::string_view part) {
  return StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr(part));
}

int PortOf(const Socket& listener) {
  const std::string address = listener.address();
  return std::stoi(address.substr(address.rfind(':') + 1));
}

TEST(RedisTls, CarriesValuesOfAllSizes) {
  TlsRedis redis("s3cret");
  DING_ASSERT_OK_AND_ASSIGN(const auto store, create_store(redis.server()->Url("runs/7")));
  EXPECT_THAT(store->url(), HasSubstr("rediss:127.0.0.1:"));
  std::string value;
  for (const size_t size : {0, 1, 16000, 16384, 16385, 70000, 9 << 20}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; i += 1000) text[i] = static_cast<char>(i >> 4);
    const absl::string_view all = text;
    ASSERT_THAT(store->Put("a", {all.substr(0, size / 7), all.substr(size / 7)}), IsOk());
    ASSERT_THAT(store->Get("a", &value), IsOk());
    EXPECT_TRUE(value == text) << size;
  }
  LogOptions options;
  options.run = "r";
  EXPECT_THAT(store->OpenLog(options), IsOk());
}

TEST(RedisTls, CertificateOfTheServerIsChecked) {
  TlsRedis redis;
  EXPECT_THAT(redis.Store(redis.address()), IsOk());
  RedisServerAddress address = redis.address();
  address.host = "localhost";
  EXPECT_THAT(redis.Store(address), IsOk());

  address = redis.address();
  address.tls = {redis.other().path(), "", ""};
  EXPECT_THAT(redis.Store(address), Refused("not signed by an authority in 'tls_ca'"));

  TestCertificate wrong;
  wrong.names = "DNS:redis.lan,IP:10.0.0.7";
  redis.authority().Issue("elsewhere", wrong);
  redis.Show("elsewhere");
  EXPECT_THAT(redis.Store(redis.address()), Refused("belongs to another host"));
  address = redis.address();
  address.host = "localhost";
  EXPECT_THAT(redis.Store(address), Refused("belongs to another host"));

  TestCertificate old;
  old.valid_to = -absl::Minutes(1);
  redis.authority().Issue("expired", old);
  redis.Show("expired");
  EXPECT_THAT(redis.Store(redis.address()), Refused("not valid now"));
}

TEST(RedisTls, OwnCertificateIsShown) {
  TlsRedis redis;
  RedisServerAddress address = redis.address();
  address.tls.cert = address.tls.key = "";
  const auto has_hint = [](const absl::Status& status) {
    // Redis closes the connection, and its reason may be lost with it.
    return (absl::IsUnauthenticated(status) || absl::IsUnavailable(status)) &&
           absl::StrContains(status.message(), "asks for a certificate") &&
           absl::StrContains(status.message(), "'tls_cert'");
  };
  const absl::Status none = redis.Store(address).status();
  EXPECT_TRUE(has_hint(none)) << none;
  ASSERT_THAT(redis.server()->Command({"CONFIG", "SET", "tls-auth-clients", "no"}), IsOk());
  EXPECT_THAT(redis.Store(address), IsOk());

  ASSERT_THAT(redis.server()->Command({"CONFIG", "SET", "tls-auth-clients", "yes"}), IsOk());
  redis.other().Issue("stranger");
  // The file has both authorities, but Redis trusts one.
  const std::string both = redis.File("both.pem");
  OverwriteFile(both, absl::StrCat(ReadFile(redis.authority().path()).value(),
                                   ReadFile(redis.other().path()).value()));
  address.tls = {both, redis.File("stranger.pem"), redis.File("stranger.key")};
  EXPECT_THAT(redis.Store(address).status().message(),
              HasSubstr("does not accept the certificate in 'tls_cert'"));
}

TEST(RedisTls, FilesAreChecked) {
  TlsRedis redis;
  const std::string place = absl::StrCat("rediss:127.0.0.1:", redis.server()->port(), "/x");
  const std::string ca = absl::StrCat("?tls_ca=", redis.authority().path());
  const std::string cert = absl::StrCat("&tls_cert=", redis.File("worker.pem"));
  const std::string key = absl::StrCat("&tls_key=", redis.File("worker.key"));
  EXPECT_THAT(create_store(place + ca + cert + key), IsOk());
  const auto invalid = [](const std::string& url, const char* why) {
    EXPECT_THAT(create_store(url), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  invalid(place, "'tls_ca' is missing");
  invalid(place + ca + cert, "'tls_cert' is set, but 'tls_key' is not");
  invalid(place + ca + key, "'tls_key' is set, but 'tls_cert' is not");
  invalid("rediss:host/x" + ca, "expected 'rediss:HOST:PORT/PREFIX'");
  invalid(absl::StrReplaceAll(place, {{"rediss", "redis"}}) + ca, "unknown setting 'tls_ca=");
  invalid(place + "?tls_ca=" + redis.File("worker.key"), "holds no certificate");
  EXPECT_THAT(create_store(place + "?tls_ca=/nowhere"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
  ASSERT_EQ(chmod(redis.File("worker.key").c_str(), 0644), 0);
  EXPECT_THAT(create_store(place + ca + cert + key),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600")));
}

TEST(RedisTls, OneSideWithoutTlsIsExplained) {
  TlsRedis redis;
  RedisServerAddress address = redis.address();
  address.tls = {};
  EXPECT_THAT(redis.Store(address),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the URL begins with 'rediss:'")));
  const auto plain = RedisServer::Start({}).value();
  address = redis.address();
  address.port = plain->port();
  address.connect_timeout = absl::Milliseconds(200);
  // Redis waits for the end of a line, or complains, as the random bytes of the handshake have it.
  const auto explained = HasSubstr("it does not speak TLS there: name its 'tls-port'");
  EXPECT_THAT(redis.Store(address).status().message(), explained);
  const auto listener = Socket::Listening();
  address.port = PortOf(*listener);
  std::thread plain_server([&] {
    const Socket caller(accept(listener->fd(), nullptr, nullptr));
    caller.Write("-ERR unknown command\r\n");
    char bytes[4096];
    (void)!read(caller.fd(), bytes, sizeof(bytes));
  });
  EXPECT_THAT(RedisConnection::Open(address),
              StatusIs(absl::StatusCode::kUnauthenticated, explained));
  plain_server.join();
}

TEST(RedisTls, SilentServerTimesOut) {
  TlsRedis redis;
  RedisServerAddress address = redis.address();
  const auto silent = Socket::Listening();
  address.connect_timeout = absl::Milliseconds(50);
  address.port = PortOf(*silent);
  EXPECT_THAT(RedisConnection::Open(address),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("does not answer")));

  address = redis.address();
  address.io_timeout = absl::Seconds(2);  // Long enough for Redis on a busy machine.
  const auto connection = RedisConnection::Open(address).value();
  ASSERT_THAT(connection->Call({"PING"}), IsOk());
  kill(redis.server()->pid(), SIGSTOP);
  EXPECT_THAT(connection->Call({"PING"}), StatusIs(absl::StatusCode::kDeadlineExceeded));
  kill(redis.server()->pid(), SIGCONT);
  const auto other = RedisConnection::Open(address).value();
  kill(redis.server()->pid(), SIGSTOP);
  EXPECT_THAT(other->Call({"SET", "a"}, {std::string(50 << 20, 'x')}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  kill(redis.server()->pid(), SIGCONT);
}

// It is not known then whether Redis has carried out the command.
TEST(RedisTls, DamagedBytesAreAnOutage) {
  TlsRedis redis;
  const auto listener = Socket::Listening();
  std::atomic<bool> damage{false};
  std::thread wire([&] {
    const Socket caller(accept(listener->fd(), nullptr, nullptr));
    const auto to = Socket::ConnectedTo(absl::StrCat("127.0.0.1:", redis.server()->port()));
    pollfd ends[] = {{caller.fd(), POLLIN, 0}, {to->fd(), POLLIN, 0}};
    char bytes[4096];
    while (poll(ends, 2, -1) > 0) {
      const bool from_redis = ends[0].revents == 0;
      const ssize_t size = read(ends[from_redis ? 1 : 0].fd, bytes, sizeof(bytes));
      if (size <= 0) return;
      if (from_redis && damage) bytes[size - 1] = static_cast<char>(bytes[size - 1] ^ 1);
      (from_redis ? caller : *to).Write({bytes, static_cast<size_t>(size)});
    }
  });
  RedisServerAddress address = redis.address();
  address.port = PortOf(*listener);
  auto connection = RedisConnection::Open(address).value();
  EXPECT_THAT(connection->Call({"SET", "a", "1"}), IsOk());
  damage = true;
  EXPECT_THAT(connection->Call({"SET", "a", "2"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("TLS fails")));
  EXPECT_TRUE(connection->broken());
  EXPECT_EQ(redis.server()->Command({"GET", "a"}).value(), "2");
  connection.reset();
  wire.join();
}

// A store goes on with new connections when Redis was restarted, or has a new certificate.
TEST(RedisTls, FilesAreReadForEachConnection) {
  TlsRedis redis;
  DING_ASSERT_OK_AND_ASSIGN(const auto store, redis.Store(redis.address()));
  ASSERT_THAT(store->Put("a", {"1"}), IsOk());
  ASSERT_THAT(redis.server()->Restart(), IsOk());
  EXPECT_THAT(store->Put("a", {"2"}), IsOk()) << "without SIGPIPE";

  redis.other().Issue("next");
  redis.Show("next");
  ASSERT_THAT(redis.server()->Command({"CLIENT", "KILL", "TYPE", "normal"}), IsOk());
  EXPECT_THAT(store->Put("a", {"3"}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(store->url()), HasSubstr("not signed by an authority"))));
  OverwriteFile(redis.authority().path(), absl::StrCat(ReadFile(redis.authority().path()).value(),
                                                       ReadFile(redis.other().path()).value()));
  EXPECT_THAT(store->Put("a", {"3"}), IsOk());
  std::string value;
  EXPECT_THAT(store->Get("a", &value), IsOk());
  EXPECT_EQ(value, "3");
}

}  // namespace
}  // namespace ding
