#include "ding_worker/interaction/redis/redis_connection.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/io_vectors.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

using internal_redis::ParseStringReply;
using internal_redis::StatusOfReply;
using internal_redis::StringReply;

constexpr absl::string_view kLineEnd = "\r\n";
// The bytes that are read of a reply first. A small value arrives with them in one system call; the
// rest of a large one is read directly to its place.
constexpr size_t kFirstBytes = 4096;
// The bytes that are read of any other reply at once.
constexpr size_t kReplyBytes = 16384;

struct ErrorKind {
  absl::string_view code;
  absl::StatusCode status;
  absl::string_view advice;
};

constexpr ErrorKind kErrorKinds[] = {
    {"OOM", absl::StatusCode::kResourceExhausted,
     "Redis is full: give it more 'maxmemory', or keep less data in it"},
    {"NOAUTH", absl::StatusCode::kUnauthenticated,
     "Redis asks for a password: set 'password_file' to the file that holds it"},
    {"WRONGPASS", absl::StatusCode::kUnauthenticated,
     "Redis does not accept the password of 'password_file', or does not know the 'user'"},
    {"DENIED", absl::StatusCode::kPermissionDenied,
     "Redis accepts only clients of its own machine: set its 'bind' and 'requirepass'"},
    {"ERR max number of clients reached", absl::StatusCode::kUnavailable,
     "Redis has too many clients: raise its 'maxclients'"},
    {"ERR no such key", absl::StatusCode::kUnavailable,
     "Redis has lost a value while it was written"},
    {"ERR AUTH", absl::StatusCode::kUnauthenticated,
     "Redis has no password: set its 'requirepass', or leave out 'password_file'"},
    {"LOADING", absl::StatusCode::kUnavailable, "Redis is reading its data"},
    {"READONLY", absl::StatusCode::kUnavailable,
     "Redis is a replica that may only be read: use its master, or make it one by 'REPLICAOF NO "
     "ONE'"},
    {"MASTERDOWN", absl::StatusCode::kUnavailable, "Redis is a replica without its master"},
    {"MISCONF", absl::StatusCode::kUnavailable,
     "Redis cannot save its data, and accepts no more: look at its log and its disk"},
    {"NOREPLICAS", absl::StatusCode::kUnavailable, "Redis has too few replicas"},
    {"BUSY", absl::StatusCode::kUnavailable, "Redis runs a script"},
    {"TRYAGAIN", absl::StatusCode::kUnavailable, "Redis moves its keys"},
    {"CLUSTERDOWN", absl::StatusCode::kUnavailable, "the cluster of Redis is down"},
    {"WRONGTYPE", absl::StatusCode::kFailedPrecondition, "the key holds a value of another type"},
};

RedisReply ToReply(const redisReply& reply) {
  RedisReply made;
  made.nil = reply.type == REDIS_REPLY_NIL;
  made.integer = reply.type == REDIS_REPLY_INTEGER ? reply.integer : 0;
  if (reply.str != nullptr) made.text.assign(reply.str, reply.len);
  for (size_t i = 0; i < reply.elements; ++i) made.elements.push_back(ToReply(*reply.element[i]));
  return made;
}

// Returns the error in a reply or in one of its elements, where EXEC puts the errors of its
// commands.
absl::Status ErrorIn(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR) return StatusOfReply({reply.str, reply.len});
  for (size_t i = 0; i < reply.elements; ++i) DING_RETURN_IF_ERROR(ErrorIn(*reply.element[i]));
  return absl::OkStatus();
}

}  // namespace

absl::Status internal_redis::StatusOfReply(absl::string_view error) {
  if (absl::StartsWith(error, "NOPERM ")) {
    return absl::PermissionDeniedError(absl::StrCat(
        "Redis does not allow the user that command, or that key; expected a user made by 'ACL "
        "SETUSER NAME on >PASSWORD ~PREFIX/* ",
        kRedisUserRules, "' (it says '", error, "')"));
  }
  for (const ErrorKind& kind : kErrorKinds) {
    absl::string_view rest = error;
    if (absl::ConsumePrefix(&rest, kind.code) && (rest.empty() || rest.front() == ' ')) {
      return absl::Status(kind.status, absl::StrCat(kind.advice, " (it says '", error, "')"));
    }
  }
  return absl::InternalError(absl::StrCat("Redis says '", error, "'"));
}

StringReply internal_redis::ParseStringReply(absl::string_view bytes) {
  StringReply reply;
  if (bytes.empty()) return reply;
  const size_t end = bytes.find(kLineEnd);
  if (bytes.front() != '$' && bytes.front() != '-') {
    reply.kind = StringReply::Kind::kOther;
  } else if (end != absl::string_view::npos) {
    reply.line_bytes = end + kLineEnd.size();
    const absl::string_view line = bytes.substr(1, end - 1);
    if (bytes.front() == '-') {
      reply.kind = StringReply::Kind::kError;
      reply.error = line;
    } else if (line == "-1") {
      reply.kind = StringReply::Kind::kNil;
    } else {
      // SimpleAtoi() also accepts spaces, a plus sign and leading zeros, which Redis never writes.
      const bool valid = absl::SimpleAtoi(line, &reply.size) && reply.size >= 0 &&
                         absl::StrCat(reply.size) == line;
      reply.kind = valid ? StringReply::Kind::kString : StringReply::Kind::kOther;
    }
  } else if (bytes.size() >= kFirstBytes) {
    reply.kind = StringReply::Kind::kOther;
  }
  return reply;
}

RedisConnection::RedisConnection(redisContext* context, std::string name)
    : context_(context), name_(std::move(name)), socket_(context->fd) {}

RedisConnection::~RedisConnection() { redisFree(context_); }

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Open(
    const RedisServerAddress& server) {
  const std::string name = absl::StrCat(server.host, ":", server.port);
  std::string password;
  if (!server.password_file.empty()) {
    absl::StatusOr<std::string> read = ReadRedisPassword(server.password_file);
    if (!read.ok()) return absl::UnauthenticatedError(read.status().message());
    password = *std::move(read);
  }
  redisContext* const context = redisConnectWithTimeout(server.host.c_str(), server.port,
                                                        absl::ToTimeval(server.connect_timeout));
  if (context == nullptr)
    return absl::ResourceExhaustedError("no memory for a connection to Redis");
  auto connection = absl::WrapUnique(new RedisConnection(context, name));
  if (context->err != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to Redis at ", name, ": ", context->errstr));
  }
  fcntl(context->fd, F_SETFD, FD_CLOEXEC);  // Child processes, such as envs, must not inherit it.
  const auto set_timeout = [&](absl::Duration timeout) {
    if (redisSetTimeout(context, absl::ToTimeval(timeout)) == REDIS_OK) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("cannot set timeouts of the connection to ", name));
  };
  if (server.tls.ca.empty()) {
    connection->no_answer_ =
        ", as a server does that speaks TLS there (then the URL begins with 'rediss:')";
  } else {
    DING_RETURN_IF_ERROR(set_timeout(server.connect_timeout));
    DING_RETURN_IF_ERROR(Annotate(connection->socket_.StartTls(server.tls, server.host),
                                  absl::StrCat("cannot connect to Redis at ", name, " by TLS")));
    connection->no_answer_ =
        server.tls.cert.empty()
            ? ", as a server does that asks for a certificate ('tls_cert' and 'tls_key')"
            : ", as a server does that does not accept the certificate in 'tls_cert'";
  }
  DING_RETURN_IF_ERROR(set_timeout(server.io_timeout));
  if (!password.empty()) {
    std::vector<absl::string_view> command = {"AUTH", password};
    if (!server.user.empty()) command.insert(command.begin() + 1, server.user);
    DING_RETURN_IF_ERROR(connection->Call(command).status());
  }
  return connection;
}

absl::StatusOr<std::string> ReadRedisPassword(const std::string& path) {
  DING_ASSIGN_OR_RETURN(std::string password, ReadPrivateFile(path));
  password.resize(std::min(password.find_first_of("\r\n"), password.size()));
  if (!password.empty()) return password;
  return absl::InvalidArgumentError(absl::StrCat("the first line of '", path, "' is empty"));
}

absl::Status RedisConnection::Broken(int error, absl::string_view action) {
  broken_ = true;
  if (error == EAGAIN || error == EWOULDBLOCK) {
    return absl::DeadlineExceededError(absl::StrCat("cannot ", action, " Redis at ", name_,
                                                    ": no byte was transferred for too long"));
  }
  if (!socket_.problem().empty()) {
    // Once it has answered, both sides accept each other, and a command may have been carried out.
    return absl::Status(
        no_answer_.empty() ? absl::StatusCode::kUnavailable : absl::StatusCode::kUnauthenticated,
        absl::StrCat("cannot ", action, " Redis at ", name_, ": ", socket_.problem()));
  }
  return absl::UnavailableError(absl::StrCat(
      "cannot ", action, " Redis at ", name_, ": ",
      error == kIoEnded ? "it closed the connection" : std::strerror(error), no_answer_));
}

absl::Status RedisConnection::NoRedis(absl::string_view found) {
  broken_ = true;
  return absl::UnavailableError(
      absl::StrCat("the server at ", name_, " is not a Redis server: it says '",
                   absl::CHexEscape(found.substr(0, std::min<size_t>(found.size(), 60))), "'"));
}

absl::Status RedisConnection::Send(absl::Span<const absl::string_view> args,
                                   absl::Span<const absl::string_view> value) {
  std::string head = absl::StrCat("*", args.size() + (value.empty() ? 0 : 1), kLineEnd);
  for (const absl::string_view arg : args) {
    absl::StrAppend(&head, "$", arg.size(), kLineEnd, arg, kLineEnd);
  }
  size_t size = 0;
  for (const absl::string_view piece : value) size += piece.size();
  if (!value.empty()) absl::StrAppend(&head, "$", size, kLineEnd);
  IoVectors vectors = {VectorOf(head)};
  for (const absl::string_view piece : value) vectors.push_back(VectorOf(piece));
  if (!value.empty()) vectors.push_back(VectorOf(kLineEnd));
  const auto send = [this](iovec* parts, int count) { return socket_.Send(parts, count); };
  const int error = MoveAll(send, std::move(vectors));
  return error == 0 ? absl::OkStatus() : Broken(error, "write to");
}

absl::Status RedisConnection::Noted(absl::Status replied) {
  // Only a new connection uses the password that holds now, or finds the server that has taken over
  // the name of this one.
  if (absl::IsUnauthenticated(replied) || absl::StrContains(replied.message(), "'READONLY ")) {
    broken_ = true;
  }
  return replied;
}

absl::StatusOr<size_t> RedisConnection::Receive(char* to, size_t size) {
  ssize_t count = 0;
  do {
    iovec place = {to, size};
    count = socket_.Receive(&place, 1, 0);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return Broken(count == 0 ? kIoEnded : errno, "read from");
  no_answer_.clear();
  return static_cast<size_t>(count);
}

absl::StatusOr<RedisReply> RedisConnection::ReadReply() {
  redisReader* const reader = context_->reader;
  void* read = nullptr;
  while (redisReaderGetReply(reader, &read) == REDIS_OK && read == nullptr) {
    char bytes[kReplyBytes];
    DING_ASSIGN_OR_RETURN(const size_t count, Receive(bytes, sizeof(bytes)));
    redisReaderFeed(reader, bytes, count);
  }
  if (read == nullptr) return NoRedis(reader->errstr);
  const std::unique_ptr<redisReply, void (*)(void*)> reply(static_cast<redisReply*>(read),
                                                           freeReplyObject);
  DING_RETURN_IF_ERROR(Noted(ErrorIn(*reply)));
  return ToReply(*reply);
}

absl::StatusOr<RedisReply> RedisConnection::Call(absl::Span<const absl::string_view> args,
                                                 absl::Span<const absl::string_view> value) {
  DING_RETURN_IF_ERROR(Send(args, value));
  return ReadReply();
}

absl::StatusOr<std::optional<int64_t>> RedisConnection::Get(
    absl::Span<const absl::string_view> args, int64_t max_bytes, absl::Span<char> header,
    size_t offset, std::string* value) {
  DING_RETURN_IF_ERROR(Send(args, {}));
  char first[kFirstBytes];
  size_t got = 0;
  StringReply reply;
  while (reply.kind == StringReply::Kind::kIncomplete) {
    DING_ASSIGN_OR_RETURN(const size_t count, Receive(first + got, sizeof(first) - got));
    got += count;
    reply = ParseStringReply({first, got});
  }
  const absl::string_view more = absl::string_view(first, got).substr(reply.line_bytes);
  if (reply.kind == StringReply::Kind::kString) {
    const int64_t bytes = reply.size - static_cast<int64_t>(header.size());
    if (bytes < 0 || bytes > max_bytes) {
      broken_ = true;  // The rest of the reply is not read.
      return absl::DataLossError(absl::StrCat("unexpected string of ", reply.size, " bytes"));
    }
    value->resize(offset + static_cast<size_t>(bytes));
    char line_end[2];
    const IoVectors places = {{header.data(), header.size()},
                              {&(*value)[offset], static_cast<size_t>(bytes)},
                              {line_end, sizeof(line_end)}};
    const size_t total = static_cast<size_t>(reply.size) + sizeof(line_end);
    if (more.size() > total) return NoRedis(more.substr(total));
    size_t copied = 0;
    for (const iovec& place : places) {
      const size_t count = std::min(place.iov_len, more.size() - copied);
      if (count > 0) std::memcpy(place.iov_base, more.data() + copied, count);
      copied += count;
    }
    const auto receive = [this](iovec* parts, int count) {
      return socket_.Receive(parts, count, MSG_WAITALL);
    };
    const int error = MoveAll(receive, places, copied);
    if (error != 0) return Broken(error, "read from");
    if (absl::string_view(line_end, 2) != kLineEnd) return NoRedis({line_end, 2});
    return bytes;
  }
  if (reply.kind == StringReply::Kind::kOther || !more.empty()) return NoRedis({first, got});
  if (reply.kind == StringReply::Kind::kError) return Noted(StatusOfReply(reply.error));
  return std::nullopt;
}

absl::Status CheckRedisServer(RedisConnection* connection) {
  DING_ASSIGN_OR_RETURN(const RedisReply info, connection->Call({"INFO"}));
  // Returns the value of a line "name:value", or "" if there is no such line.
  const auto field = [&info](absl::string_view name) {
    for (absl::string_view line : absl::StrSplit(info.text, kLineEnd)) {
      if (absl::ConsumePrefix(&line, name) && absl::ConsumePrefix(&line, ":")) return line;
    }
    return absl::string_view();
  };
  if (field("loading") == "1") return StatusOfReply("LOADING");
  if (field("redis_mode") == "cluster") {
    return absl::FailedPreconditionError(
        "Redis is part of a cluster, expected a server of its own ('cluster-enabled no')");
  }
  if (field("role") == "slave") {
    return absl::UnavailableError(absl::StrCat("Redis is a replica of ", field("master_host"), ":",
                                               field("master_port"),
                                               ", which may only be read: use its master"));
  }
  const absl::string_view policy = field("maxmemory_policy");
  const absl::string_view maxmemory = field("maxmemory");
  if (maxmemory != "0" && !maxmemory.empty() && policy != "noeviction") {
    return absl::FailedPreconditionError(
        absl::StrCat("Redis deletes keys (maxmemory-policy ", policy, ") when its ", maxmemory,
                     " bytes of maxmemory are full, which would lose samples silently; expected "
                     "'maxmemory-policy noeviction'"));
  }
  return absl::OkStatus();
}

RedisPool::RedisPool(RedisServerAddress server, int max_connections)
    : server_(std::move(server)), max_connections_(max_connections) {}

absl::StatusOr<RedisPool::Taken> RedisPool::Take() {
  {
    MutexLock lock(&mutex_);
    const Deadline deadline = Deadline::After(server_.io_timeout);
    while (in_use_ >= max_connections_) {
      if (returned_.WaitUntil(&mutex_, deadline) || in_use_ < max_connections_) continue;
      return absl::UnavailableError(absl::StrCat(
          "all ", max_connections_, " connections to ", server_.host, ":", server_.port,
          " were in use for ", absl::FormatDuration(server_.io_timeout)));
    }
    ++in_use_;
    if (!idle_.empty()) {
      Taken taken{std::move(idle_.back()), false};
      idle_.pop_back();
      return taken;
    }
  }
  absl::StatusOr<std::unique_ptr<RedisConnection>> made = RedisConnection::Open(server_);
  absl::Status status = made.status();
  if (status.ok()) status = CheckRedisServer(made->get());
  if (status.ok()) return Taken{*std::move(made), true};
  MutexLock lock(&mutex_);
  --in_use_;
  returned_.Signal();
  return status;
}

void RedisPool::Return(std::unique_ptr<RedisConnection> connection) {
  std::vector<std::unique_ptr<RedisConnection>> closed;  // destroyed after the lock is released
  MutexLock lock(&mutex_);
  --in_use_;
  if (connection->broken()) {
    closed.swap(idle_);
    closed.push_back(std::move(connection));
  } else {
    idle_.push_back(std::move(connection));
  }
  returned_.Signal();
}

}  // namespace ding
