#include "ding_worker/interaction/redis/redis_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_redis::ParseStringReply;
using internal_redis::StatusOfReply;
using internal_redis::StringReply;
using testing::AllOf;
using testing::HasSubstr;
using Kind = StringReply::Kind;

// A server that sends `text` in two pieces to each peer, and then sends nothing more or closes the
// connection.
class Impostor {
 public:
  Impostor() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    DING_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    DING_CHECK(listen(listener_, 8) == 0);
    DING_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    server_.host = "127.0.0.1";
    server_.port = ntohs(address.sin_port);
  }
  ~Impostor() { close(listener_); }

  RedisServerAddress* server() { return &server_; }
  std::unique_ptr<RedisConnection> Connect(const std::string& text, size_t first, bool closes) {
    auto connection = RedisConnection::Open(server_).value();
    const int fd = accept(listener_, nullptr, nullptr);
    DING_CHECK(fd >= 0);
    (void)!send(fd, text.data(), first, MSG_NOSIGNAL);
    (void)!send(fd, text.data() + first, text.size() - first, MSG_NOSIGNAL);
    if (closes) {
      shutdown(fd, SHUT_WR);
    }
    open_.reset(new int(fd), [](int* open) {
      close(*open);
      delete open;
    });
    return connection;
  }

 private:
  const int listener_;
  RedisServerAddress server_;
  std::shared_ptr<int> open_;  // the socket of the last connection
};

TEST(RedisConnection, ParsesTheBeginningOfAString) {
  const auto kind = [](absl::string_view bytes) { return ParseStringReply(bytes).kind; };
  for (const char* const bytes : {"", "$", "$12", "$12\r", "-", "-OOM x\r"}) {
    EXPECT_EQ(kind(bytes), Kind::kIncomplete) << bytes;
  }
  const StringReply reply = ParseStringReply("$12\r\nhello");
  EXPECT_EQ(reply.kind, Kind::kString);
  EXPECT_EQ(reply.size, 12);
  EXPECT_EQ(reply.line_bytes, 5u);
  EXPECT_EQ(kind("$0\r\n\r\n"), Kind::kString);
  EXPECT_EQ(kind("$-1\r\n"), Kind::kNil);
  const StringReply error = ParseStringReply("-OOM no memory\r\n");
  EXPECT_EQ(error.kind, Kind::kError);
  EXPECT_EQ(error.error, "OOM no memory");
  for (const char* const bytes :
       {"+OK\r\n", "HTTP/1.1 400\r\n", "$\r\n", "$-2\r\n", "$1x\r\n", "$\r1\r\n", "$ 1\r\n",
        "$+1\r\n", "$01\r\n", "$99999999999999999999\r\n", ":1\r\n", "\r\n"}) {
    EXPECT_EQ(kind(bytes), Kind::kOther) << bytes;
  }
  EXPECT_EQ(kind("-" + std::string(10000, 'x')), Kind::kOther) << "a line without an end";
}

TEST(RedisConnection, AdvisesOnErrorsOfRedis) {
  const auto is = [](absl::string_view error, absl::StatusCode code, const char* part) {
    EXPECT_THAT(StatusOfReply(error), StatusIs(code, AllOf(HasSubstr(part), HasSubstr(error))));
  };
  is("OOM command not allowed", absl::StatusCode::kResourceExhausted, "maxmemory");
  is("NOAUTH Authentication required.", absl::StatusCode::kUnauthenticated, "password_file");
  is("WRONGPASS invalid pair", absl::StatusCode::kUnauthenticated, "does not accept the password");
  is("ERR AUTH <password> called", absl::StatusCode::kUnauthenticated, "requirepass");
  is("NOPERM this user has no permissions", absl::StatusCode::kPermissionDenied, "allow");
  is("DENIED Redis is running in protected mode", absl::StatusCode::kPermissionDenied, "bind");
  is("ERR max number of clients reached", absl::StatusCode::kUnavailable, "maxclients");
  is("ERR no such key", absl::StatusCode::kUnavailable, "lost");
  is("MASTERDOWN Link with MASTER is down", absl::StatusCode::kUnavailable, "master");
  is("BUSY Redis is busy running a script", absl::StatusCode::kUnavailable, "script");
  is("TRYAGAIN Multiple keys request", absl::StatusCode::kUnavailable, "moves");
  is("LOADING", absl::StatusCode::kUnavailable, "reading its data");
  is("READONLY You can't write", absl::StatusCode::kUnavailable, "master");
  is("MISCONF Redis is configured", absl::StatusCode::kUnavailable, "disk");
  is("WRONGTYPE Operation", absl::StatusCode::kFailedPrecondition, "type");
  is("ERR unknown command", absl::StatusCode::kInternal, "says");
  is("BUSYGROUP other", absl::StatusCode::kInternal, "says");
}

TEST(RedisConnection, ReadsAStringToItsPlace) {
  const auto redis = RedisServer::Start({}).value();
  RedisServerAddress server;
  server.host = "127.0.0.1";
  server.port = redis->port();
  const auto connection = RedisConnection::Open(server).value();
  for (const size_t size : {0, 3, 4085, 4086, 4087, 4088, 4096, 5000, 3000000}) {
    std::string text(size, 'x');
    if (size > 0) text.front() = text.back() = 'y';
    ASSERT_THAT(connection->Call({"SET", "a"}, {"head", text.substr(0, size / 2),
                                                absl::string_view(text).substr(size / 2)}),
                IsOk());
    std::array<char, 4> header;
    std::string value = "ab, and more";
    DING_ASSERT_OK_AND_ASSIGN(
        const std::optional<int64_t> read,
        connection->Get({"GET", "a"}, 3000000, absl::MakeSpan(header), 2, &value));
    EXPECT_EQ(read, static_cast<int64_t>(size));
    EXPECT_EQ(absl::string_view(header.data(), 4), "head");
    EXPECT_TRUE(value == absl::StrCat("ab", text)) << size;
  }
  std::string value;
  EXPECT_EQ(connection->Get({"GET", "b"}, 100, {}, 0, &value).value(), std::nullopt);
  EXPECT_THAT(connection->Get({"GET"}, 100, {}, 0, &value),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("wrong number of arguments")));
  EXPECT_FALSE(connection->broken());
  EXPECT_THAT(connection->Get({"GET", "a"}, 100, {}, 0, &value),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_TRUE(connection->broken()) << "the rest of the reply was not read";
}

TEST(RedisConnection, ServerThatIsNotRedisIsReported) {
  Impostor impostor;
  const auto no_redis =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is not a Redis server"));
  std::string value;
  for (const std::string text : {"HTTP/1.1 400 Bad Request\r\n", "$4\r\nabcdXY", "+OK\r\n"}) {
    const auto connection = impostor.Connect(text, 3, /*closes=*/true);
    EXPECT_THAT(connection->Get({"GET", "a"}, 100, {}, 0, &value), no_redis) << text;
    EXPECT_TRUE(connection->broken());
  }
  const auto connection = impostor.Connect("HTTP/1.1 400 Bad Request\r\n", 3, /*closes=*/true);
  EXPECT_THAT(CheckRedisServer(connection.get()), no_redis);
}

TEST(RedisConnection, SilentServerTimesOut) {
  Impostor impostor;
  impostor.server()->io_timeout = absl::Milliseconds(20);
  const auto connection = impostor.Connect("$5\r\nab", 1, /*closes=*/false);
  std::string value;
  EXPECT_THAT(connection->Get({"GET", "a"}, 100, {}, 0, &value),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(connection->broken());
  const auto other = impostor.Connect("", 0, /*closes=*/false);
  EXPECT_THAT(other->Call({"PING"}), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(other->broken());
}

// Any bytes give either a string of the size in its first line or an error, and never more than one
// reply.
TEST(RedisConnectionFuzz, MutantsOfAReplyAreAStringOrAnError) {
  Impostor impostor;
  const std::string seeds[] = {"$10\r\n0123456789\r\n", "$-1\r\n", "-OOM no memory\r\n",
                               absl::StrCat("$5000\r\n", std::string(5000, 'x'), "\r\n")};
  Fuzz(2000, [&](Mutator* mutator) {
    const std::string& good = seeds[mutator->rng()->UniformInt(std::size(seeds))];
    const std::string text = mutator->Mutate(good);
    const auto connection = impostor.Connect(
        text, mutator->rng()->UniformInt(static_cast<uint32_t>(text.size() + 1)), true);
    std::string value;
    std::array<char, 4> header;
    const absl::StatusOr<std::optional<int64_t>> read =
        connection->Get({"GET", "a"}, 6000, absl::MakeSpan(header), 0, &value);
    if (!read.ok() || !read->has_value()) return;
    const std::string all = absl::StrCat(absl::string_view(header.data(), 4), value);
    EXPECT_EQ(text, absl::StrCat("$", all.size(), "\r\n", all, "\r\n"));
  });
}

}  // namespace
}  // namespace ding
