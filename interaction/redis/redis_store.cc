#include "ding_worker/interaction/redis/redis_store.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/redis/redis_log.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/value_format.h"

namespace ding {
namespace {

constexpr absl::string_view kStoreId = ".store_id";
constexpr absl::string_view kTemporary = ".tmp/";
// A list expires if its writer has added nothing for so long.
constexpr absl::string_view kTemporarySeconds = "3600";
// The head of a list consists of an id that no other list has, and the header.
constexpr size_t kIdBytes = 16;
constexpr absl::string_view kScanCount = "1000";
// How often a value in parts may be replaced while it is read. Each attempt has a good chance,
// since writing the value takes as long as reading it.
constexpr int kMaxReadAttempts = 100;

std::string NewId() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

std::string AddressOf(const RedisServerAddress& server) {
  const bool v6 = absl::StrContains(server.host, ':');
  return absl::StrCat(v6 ? "[" : "", server.host, v6 ? "]:" : ":", server.port);
}

// Returns the pattern of MATCH that matches exactly `text`.
std::string EscapedPattern(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (absl::string_view("*?[]\\").find(c) != absl::string_view::npos) escaped.push_back('\\');
    escaped.push_back(c);
  }
  return escaped;
}

absl::Status CheckOptions(const RedisStore::Options& options) {
  const RedisServerAddress& server = options.server;
  if (server.host.empty() || server.port < 1 || server.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", AddressOf(server), "' is not the address of a Redis server, expected HOST:PORT"));
  }
  DING_RETURN_IF_ERROR(Annotate(CheckStoreKey(options.prefix), "prefix"));
  if (options.max_connections < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_connections is ", options.max_connections, ", expected 1 or more"));
  }
  if (options.part_bytes < 1 || options.part_bytes > RedisStore::kMaxPartBytes) {
    return absl::InvalidArgumentError(absl::StrCat("part_bytes is ", options.part_bytes,
                                                   ", expected 1 to ", RedisStore::kMaxPartBytes));
  }
  return absl::OkStatus();
}

// Returns the next `bytes` bytes of the pieces, as pieces. They begin at `*offset` of piece
// `*piece`; both are moved to their end.
std::vector<absl::string_view> TakePart(absl::Span<const absl::string_view> pieces, int64_t bytes,
                                        size_t* piece, size_t* offset) {
  std::vector<absl::string_view> part;
  auto left = static_cast<size_t>(bytes);
  while (left > 0 && *piece < pieces.size()) {
    part.push_back(pieces[*piece].substr(*offset, left));
    left -= part.back().size();
    *offset += part.back().size();
    if (*offset == pieces[*piece].size()) {
      ++*piece;
      *offset = 0;
    }
  }
  return part;
}

// Appends a part to a list that is being written. The list has an expiry time at every moment,
// because its writer may be killed.
absl::Status PushPart(absl::string_view list, absl::Span<const absl::string_view> part,
                      RedisConnection* connection) {
  DING_RETURN_IF_ERROR(connection->Call({"MULTI"}).status());
  absl::Status status = connection->Call({"RPUSH", list}, part).status();
  if (status.ok()) status = connection->Call({"EXPIRE", list, kTemporarySeconds}).status();
  if (status.ok()) return connection->Call({"EXEC"}).status();
  if (!connection->broken()) connection->Call({"DISCARD"}).IgnoreError();
  return status;
}

// The error of a read during which the value was replaced.
absl::Status Replaced() {
  return absl::AbortedError("it was replaced during each attempt to read it");
}

absl::Status Nothing() { return absl::NotFoundError(""); }

absl::Status Damaged(absl::string_view how) {
  return absl::DataLossError(absl::StrCat("it is damaged: ", how));
}

}  // namespace

RedisStore::RedisStore(const Options& options)
    : options_(options),
      url_(absl::StrCat(options.server.tls.ca.empty() ? "redis:" : "rediss:",
                        AddressOf(options.server), "/", options.prefix)),
      pool_(options.server, options.max_connections) {}

absl::StatusOr<std::unique_ptr<RedisStore>> RedisStore::Create(const Options& options) {
  DING_RETURN_IF_ERROR(CheckOptions(options));
  auto store = absl::WrapUnique(new RedisStore(options));
  absl::StatusOr<RedisPool::Taken> taken = store->pool_.Take();
  absl::Status status = taken.status();
  if (status.ok()) {
    status = store->OpenStore(taken->connection.get());
    store->pool_.Return(std::move(taken->connection));
  }
  if (status.ok()) return store;
  return absl::IsDeadlineExceeded(status) ? absl::UnavailableError(status.message()) : status;
}

absl::Status RedisStore::OpenStore(RedisConnection* connection) {
  const std::string name = Name(kStoreId);
  absl::StatusOr<RedisReply> got = connection->Call({"GET", name});
  DING_RETURN_IF_ERROR(Annotate(got.status(), absl::StrCat("'", name, "'")));
  RedisReply found = *std::move(got);
  if (found.nil) {  // Only then, so that a store in a full Redis can be opened.
    DING_RETURN_IF_ERROR(connection->Call({"SET", name, NewId(), "NX"}).status());
    DING_ASSIGN_OR_RETURN(found, connection->Call({"GET", name}));
  }
  id_ = std::move(found.text);
  return absl::OkStatus();
}

std::string RedisStore::Name(absl::string_view key) const {
  return absl::StrCat(options_.prefix, "/", key);
}

absl::Status RedisStore::Do(absl::string_view action, absl::string_view key, const Work& work) {
  absl::Status status;
  for (bool again = true; again;) {
    absl::StatusOr<RedisPool::Taken> taken = pool_.Take();
    status = taken.status();
    again = false;
    if (status.ok()) {
      status = work(taken->connection.get());
      // kUnavailable of a broken connection means that it was closed: Redis was restarted since its
      // last use. A new connection also uses the password that holds now.
      again = taken->connection->broken() && !taken->is_new &&
              (absl::IsUnavailable(status) || absl::IsUnauthenticated(status));
      pool_.Return(std::move(taken->connection));
    }
  }
  if (status.ok() || absl::IsNotFound(status)) return status;
  const bool later = absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
                     absl::IsUnauthenticated(status);
  return absl::Status(
      later ? absl::StatusCode::kUnavailable : status.code(),
      absl::StrCat("store '", url_, "': cannot ", action, " '", key, "': ", status.message()));
}

absl::Status RedisStore::Put(absl::string_view key, absl::Span<const absl::string_view> pieces) {
  DING_ASSIGN_OR_RETURN(const int64_t size, CheckPut(*this, key, pieces));
  const std::string name = Name(key);
  const std::string header = MakeValueHeader(name, pieces, size);
  if (size > options_.part_bytes) {
    return Do("put", key, [&](RedisConnection* connection) {
      return PutParts(name, header, pieces, connection);
    });
  }
  std::vector<absl::string_view> value = {header};
  value.insert(value.end(), pieces.begin(), pieces.end());
  return Do("put", key, [&](RedisConnection* connection) {
    return connection->Call({"SET", name}, value).status();
  });
}

absl::Status RedisStore::PutParts(absl::string_view name, absl::string_view header,
                                  absl::Span<const absl::string_view> pieces,
                                  RedisConnection* connection) {
  const std::string id = NewId();
  const std::string temporary = Name(absl::StrCat(kTemporary, id));
  std::vector<absl::string_view> part = {id, header};
  absl::Status status;
  for (size_t piece = 0, offset = 0; status.ok() && !part.empty();) {
    status = PushPart(temporary, part, connection);
    part = TakePart(pieces, options_.part_bytes, &piece, &offset);
  }
  if (status.ok()) status = connection->Call({"PERSIST", temporary}).status();
  if (status.ok()) status = connection->Call({"RENAME", temporary, name}).status();
  if (status.ok() || connection->broken()) return status;
  // Reports the first error. If the list cannot be deleted, it expires later.
  connection->Call({"UNLINK", temporary}).IgnoreError();
  return status;
}

absl::Status RedisStore::Get(absl::string_view key, std::string* value) {
  DING_RETURN_IF_ERROR(CheckKey(*this, key));
  const std::string name = Name(key);
  const absl::Status status = Do("get", key, [&](RedisConnection* connection) {
    absl::Status read = Replaced();
    for (int i = 0; i < kMaxReadAttempts && absl::IsAborted(read); ++i) {
      read = GetOnce(name, connection, value);
    }
    return read;
  });
  return absl::IsNotFound(status) ? Missing(key) : status;
}

absl::Status RedisStore::GetOnce(absl::string_view name, RedisConnection* connection,
                                 std::string* value) {
  std::string header(static_cast<size_t>(ValueHeaderBytes(name)), '\0');
  const absl::StatusOr<std::optional<int64_t>> found =
      connection->Get({"GET", name}, kMaxPartBytes, absl::MakeSpan(header), 0, value);
  if (absl::IsFailedPrecondition(found.status())) return GetParts(name, connection, value);
  if (absl::IsDataLoss(found.status())) return Damaged(found.status().message());
  DING_RETURN_IF_ERROR(found.status());
  if (!found->has_value()) return Nothing();
  const std::string damage = DamageOfValue(name, header, *value);
  return damage.empty() ? absl::OkStatus() : Damaged(damage);
}

absl::Status RedisStore::GetParts(absl::string_view name, RedisConnection* connection,
                                  std::string* value) {
  const auto read = [&](const std::string& index, absl::Span<char> header, size_t offset,
                        std::string* to) {
    return connection->Get({"LINDEX", name, index}, kMaxPartBytes, header, offset, to);
  };
  const auto head = [&]() -> absl::StatusOr<std::string> {
    std::string bytes;
    DING_ASSIGN_OR_RETURN(const std::optional<int64_t> found, read("0", {}, 0, &bytes));
    if (!found.has_value()) return Nothing();
    return bytes;
  };
  const auto read_all = [&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(const std::string first, head());
    value->clear();
    for (int64_t i = 1, size = 0;; ++i) {
      const absl::StatusOr<std::optional<int64_t>> part =
          read(absl::StrCat(i), {}, static_cast<size_t>(size), value);
      DING_RETURN_IF_ERROR(part.status());
      if (!part->has_value()) break;
      size += **part;
      if (size > kMaxValueBytes) return absl::DataLossError("it has too many parts");
    }
    // The parts of a list never change, so the parts that were read belong to the head if it is
    // still the same.
    DING_ASSIGN_OR_RETURN(const std::string last, head());
    if (first != last) return Replaced();
    const std::string damage = DamageOfValue(
        name, absl::string_view(first).substr(std::min(kIdBytes, first.size())), *value);
    return damage.empty() ? absl::OkStatus() : absl::DataLossError(damage);
  };
  const absl::Status status = read_all();
  if (absl::IsDataLoss(status)) return Damaged(status.message());
  if (!absl::IsFailedPrecondition(status)) return status;
  DING_ASSIGN_OR_RETURN(const RedisReply type, connection->Call({"TYPE", name}));
  // A value of ours has taken the place of the one that was read.
  if (type.text == "string" || type.text == "list" || type.text == "none") return Replaced();
  return Damaged(
      absl::StrCat("'", name, "' is a ", type.text,
                   " in Redis, expected a string or a list: another program has put it there"));
}

absl::Status RedisStore::Missing(absl::string_view key) {
  const absl::Status missing = NoSuchKey(*this, key);
  if (lost_at_.load() == 0) {
    std::string id;
    const std::string name = Name(kStoreId);
    const absl::Status read = Do("get", kStoreId, [&](RedisConnection* connection) -> absl::Status {
      DING_ASSIGN_OR_RETURN(const RedisReply found, connection->Call({"GET", name}));
      id = found.text;
      return absl::OkStatus();
    });
    DING_RETURN_IF_ERROR(read);
    if (id == id_) return missing;
    int64_t never = 0;
    lost_at_.compare_exchange_strong(never, absl::ToUnixSeconds(Clock::Real()->Now()));
  }
  return absl::NotFoundError(absl::StrCat(
      missing.message(),
      "; Redis has lost its data: it was restarted without them, or emptied; this was "
      "first noticed at ",
      absl::FormatTime(absl::FromUnixSeconds(lost_at_.load())), " ('appendonly yes' keeps them)"));
}

absl::Status RedisStore::Delete(absl::string_view key) {
  DING_RETURN_IF_ERROR(CheckKey(*this, key));
  const std::string name = Name(key);
  return Do("delete", key, [&](RedisConnection* connection) {
    return connection->Call({"UNLINK", name}).status();
  });
}

absl::Status RedisStore::Scan(absl::string_view beginning, RedisConnection* connection,
                              const std::function<absl::Status(const RedisReply& names)>& page) {
  const std::string pattern = absl::StrCat(EscapedPattern(beginning), "*");
  std::string cursor = "0";
  do {
    DING_ASSIGN_OR_RETURN(const RedisReply reply, connection->Call({"SCAN", cursor, "MATCH",
                                                                    pattern, "COUNT", kScanCount}));
    if (reply.elements.size() != 2)
      return absl::InternalError("Redis sent an unexpected reply to SCAN");
    DING_RETURN_IF_ERROR(page(reply.elements[1]));
    cursor = reply.elements[0].text;
  } while (cursor != "0");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RedisStore::List(absl::string_view prefix) {
  std::vector<std::string> keys;
  const size_t key_begin = Name("").size();
  DING_RETURN_IF_ERROR(Do("list", prefix, [&](RedisConnection* connection) {
    keys.clear();
    return Scan(Name(prefix), connection, [&](const RedisReply& names) {
      for (const RedisReply& name : names.elements) {
        const absl::string_view key = absl::string_view(name.text).substr(key_begin);
        if (CheckStoreKey(key).ok()) keys.emplace_back(key);
      }
      return absl::OkStatus();
    });
  }));
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

absl::Status RedisStore::Clear() {
  return Do("clear", "", [&](RedisConnection* connection) {
    return Scan(Name(""), connection, [&](const RedisReply& names) -> absl::Status {
      if (names.elements.empty()) return absl::OkStatus();
      std::vector<absl::string_view> command = {"UNLINK"};
      for (const RedisReply& name : names.elements) command.push_back(name.text);
      return connection->Call(command).status();
    });
  });
}

absl::StatusOr<std::unique_ptr<Log>> RedisStore::OpenLog(const LogOptions& options) {
  return RedisLog::Open(options_.server, options_.prefix, url_, options);
}

}  // namespace ding
