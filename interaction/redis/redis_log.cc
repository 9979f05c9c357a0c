#include "ding_worker/interaction/redis/redis_log.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr char kVersion[] = "3";
constexpr int64_t kPageRecords = 500;  // of a read
// Who opens the log gets a greater epoch than before by at least this: a process begins epochs by
// itself, too.
constexpr int64_t kEpochStep = 1 << 20;

// Each script replies "ok" and more, or what is wrong. KEYS: keys_.
// ARGV: version, run, whether it must exist, the time, kEpochStep
constexpr absl::string_view kOpen = R"(
local about = redis.call('HMGET', KEYS[1], 'version', 'run', 'epoch')
if not about[1] then
  if redis.call('EXISTS', KEYS[4]) == 1 then return {'version', '1'} end
  if ARGV[3] == '1' then return {'none'} end
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'run', ARGV[2], 'next', 1, 'commits', 0)
  redis.call('DEL', KEYS[2], KEYS[3])
elseif about[1] ~= ARGV[1] then return {'version', about[1]}
elseif ARGV[2] ~= '' and about[2] ~= ARGV[2] then return {'run', about[2]} end
local epoch = math.max(tonumber(ARGV[4]), tonumber(about[3] or '0') + tonumber(ARGV[5]))
redis.call('HSET', KEYS[1], 'epoch', string.format('%.0f', epoch))
about = redis.call('HMGET', KEYS[1], 'epoch', 'next', 'commits')
return {'ok', about[1], about[2], about[3]}
)";

// ARGV: epoch, commits before, version, run, first index, whether anew, number of removed indexes
// and of records, and then these, and name and bytes of each part of the snapshot
constexpr absl::string_view kCommit = R"(
local about = redis.call('HMGET', KEYS[1], 'epoch', 'commits')
local anew = ARGV[6] == '1'
if about[1] and tonumber(about[1]) > tonumber(ARGV[1]) then return {'taken'} end
if not anew and (about[1] ~= ARGV[1] or about[2] ~= ARGV[2]) then return {'lost'} end
if anew then redis.call('DEL', KEYS[2], KEYS[3]) end
local first, removes = tonumber(ARGV[5]), 8 + tonumber(ARGV[7])
local records = removes + tonumber(ARGV[8])
for i = removes + 1, records do
  redis.call('XADD', KEYS[2], string.format('%.0f-0', first + i - removes - 1), 'r', ARGV[i])
end
for i = 9, removes do redis.call('XDEL', KEYS[2], ARGV[i] .. '-0') end
for i = records + 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[3], ARGV[i])
  else redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
end
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'run', ARGV[4], 'epoch', ARGV[1],
           'next', string.format('%.0f', first + tonumber(ARGV[8])),
           'commits', string.format('%.0f', tonumber(ARGV[2]) + 1))
return {'ok'}
)";

// ARGV: epoch, next epoch
constexpr absl::string_view kResolve = R"(
local about = redis.call('HMGET', KEYS[1], 'epoch', 'commits')
if not about[1] then return {'lost'} end
if about[1] ~= ARGV[1] and about[1] ~= ARGV[2] then
  return {tonumber(about[1]) > tonumber(ARGV[2]) and 'taken' or 'lost'}
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[2])
return {'ok', about[2]}
)";

}  // namespace

RedisLog::RedisLog(const RedisServerAddress& server, const std::string& prefix, std::string url)
    : server_(server),
      url_(std::move(url)),
      keys_({absl::StrCat(prefix, "/.log/about"), absl::StrCat(prefix, "/.log/records"),
             absl::StrCat(prefix, "/.log/snapshot"), absl::StrCat(prefix, "/journal/owner")}) {}

absl::StatusOr<std::unique_ptr<RedisLog>> RedisLog::Open(const RedisServerAddress& server,
                                                         const std::string& prefix,
                                                         const std::string& url,
                                                         const LogOptions& options) {
  auto log = absl::WrapUnique(new RedisLog(server, prefix, url));
  log->run_ = options.run;
  const std::string now = absl::StrCat(absl::ToUnixMicros(Clock::Real()->Now()));
  const std::string step = absl::StrCat(kEpochStep);
  DING_ASSIGN_OR_RETURN(
      const std::vector<std::string> about,
      log->Run(kOpen, {kVersion, log->run_, options.must_exist ? "1" : "0", now, step}));
  const bool read = about.size() == 3 && absl::SimpleAtoi(about[0], &log->epoch_) &&
                    absl::SimpleAtoi(about[1], &log->next_) &&
                    absl::SimpleAtoi(about[2], &log->commits_);
  if (!read) return log->Damaged("its numbers are none");
  return log;
}

absl::StatusOr<int64_t> RedisLog::Commit(const Change& change) {
  DING_RETURN_IF_ERROR(replaced_);
  const int64_t first = next_;
  absl::Status status;
  // The second attempt is for a connection that Redis has closed meanwhile.
  for (int attempt = 0; attempt < 2; ++attempt) {
    bool made = false;
    if (unknown_) {
      const absl::StatusOr<bool> resolved = Resolve();
      status = resolved.status();
      if (absl::IsUnavailable(status)) continue;
      if (absl::IsDataLoss(status)) unknown_ = false;
      DING_RETURN_IF_ERROR(status);
      unknown_ = false;
      made = *resolved;
    }
    if (!made) status = TryCommit(change);
    if (status.ok()) {
      ++commits_;
      next_ += static_cast<int64_t>(change.append.size());
      return first;
    }
    unknown_ = absl::IsUnavailable(status);
    if (!unknown_) return status;
  }
  return status;
}

absl::Status RedisLog::TryCommit(const Change& change) {
  std::vector<std::string> numbers = {
      absl::StrCat(epoch_), absl::StrCat(commits_),  kVersion, run_,
      absl::StrCat(next_),  change.anew ? "1" : "0", "",       absl::StrCat(change.append.size())};
  const size_t fixed = numbers.size();
  for (const int64_t index : change.remove) {
    if (!change.anew && index > 0 && index < next_) numbers.push_back(absl::StrCat(index));
  }
  numbers[6] = absl::StrCat(numbers.size() - fixed);
  std::vector<absl::string_view> args(numbers.begin(), numbers.end());
  args.insert(args.end(), change.append.begin(), change.append.end());
  for (const auto& [name, bytes] : change.snapshot) args.insert(args.end(), {name, bytes});
  return Run(kCommit, args).status();
}

absl::StatusOr<bool> RedisLog::Resolve() {
  const std::string before = absl::StrCat(epoch_);
  const std::string after = absl::StrCat(epoch_ + 1);
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> reply, Run(kResolve, {before, after}));
  ++epoch_;
  int64_t commits = 0;
  if (reply.empty() || !absl::SimpleAtoi(reply[0], &commits) || commits < commits_) {
    return Damaged("Redis has lost something");
  }
  return commits > commits_;
}

absl::Status RedisLog::Read(const Visitor& visit) {
  DING_RETURN_IF_ERROR(replaced_);
  const std::string count = absl::StrCat(kPageRecords);
  for (int64_t next = 1;;) {
    const std::string begin = absl::StrCat(next, "-0");
    DING_ASSIGN_OR_RETURN(const RedisReply page,
                          Call({"XRANGE", keys_[1], begin, "+", "COUNT", count}));
    if (page.elements.empty()) return absl::OkStatus();
    for (const RedisReply& entry : page.elements) {
      int64_t index = 0;
      const bool is_record = entry.elements.size() == 2 && entry.elements[1].elements.size() == 2;
      const absl::string_view id = is_record ? absl::string_view(entry.elements[0].text) : "";
      if (!absl::SimpleAtoi(id.substr(0, id.find('-')), &index)) {
        return Damaged("the stream has something that is no record");
      }
      const absl::Status status = visit(index, entry.elements[1].elements[1].text);
      if (absl::IsDataLoss(status)) return Damaged(status.message());
      DING_RETURN_IF_ERROR(status);
      next = index + 1;
    }
  }
}

absl::StatusOr<Log::Snapshot> RedisLog::ReadSnapshot() {
  DING_ASSIGN_OR_RETURN(const RedisReply reply, Call({"HGETALL", keys_[2]}));
  Snapshot snapshot;
  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    snapshot[reply.elements[i].text] = reply.elements[i + 1].text;
  }
  return snapshot;
}

int64_t RedisLog::size_bytes() {
  const absl::StatusOr<RedisReply> used = Call({"MEMORY", "USAGE", keys_[1]});
  return used.ok() ? used->integer : 0;
}

absl::StatusOr<RedisReply> RedisLog::Call(const std::vector<absl::string_view>& command) {
  if (connection_ == nullptr || connection_->broken()) {
    connection_.reset();
    absl::StatusOr<std::unique_ptr<RedisConnection>> opened = RedisConnection::Open(server_);
    absl::Status status = opened.status();
    if (status.ok()) status = CheckRedisServer(opened->get());
    if (absl::IsDeadlineExceeded(status)) return absl::UnavailableError(status.message());
    DING_RETURN_IF_ERROR(status);
    connection_ = *std::move(opened);
  }
  absl::StatusOr<RedisReply> reply = connection_->Call(command);
  if (reply.ok()) return reply;
  const std::string what = absl::StrCat("the log in '", url_, "': ", reply.status().message());
  if (absl::IsDeadlineExceeded(reply.status())) return absl::UnavailableError(what);
  return absl::Status(reply.status().code(), what);
}

absl::StatusOr<std::vector<std::string>> RedisLog::Run(absl::string_view script,
                                                       const std::vector<absl::string_view>& args) {
  const std::string keys = absl::StrCat(keys_.size());
  std::vector<absl::string_view> command = {"EVAL", script, keys};
  command.insert(command.end(), keys_.begin(), keys_.end());
  command.insert(command.end(), args.begin(), args.end());
  DING_ASSIGN_OR_RETURN(const RedisReply reply, Call(command));
  std::vector<std::string> texts;
  for (const RedisReply& element : reply.elements) texts.push_back(element.text);
  const std::string how = texts.empty() ? "" : texts[0];
  if (how == "ok") return std::vector<std::string>(texts.begin() + 1, texts.end());
  const std::string found = texts.size() > 1 ? texts[1] : "";
  if (how == "taken") {
    replaced_ = absl::AbortedError(absl::StrCat(
        "another coordinator goes on with this run: the journal in store '", url_, "' is its own"));
    return replaced_;
  }
  if (how == "none") {
    return absl::NotFoundError(absl::StrCat(
        "store '", url_,
        "' has no journal of this run: it had converged, and nothing of it was left there, or the "
        "store was emptied, or restarted without its data; begin a new run, from a checkpoint of "
        "this one if there is one"));
  }
  if (how == "version") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the journal in store '", url_, "' has version ", found, ", expected ", kVersion,
        ": continue the run with the ding_worker that wrote it, or begin a new run from its "
        "checkpoint"));
  }
  if (how == "run") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the journal in store '", url_, "' is of run '", found, "', expected '", run_, "'"));
  }
  return Damaged("Redis has lost something that was put there");
}

absl::Status RedisLog::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat("the journal in store '", url_, "': ", what));
}

}  // namespace ding
