#include "ding_worker/worker/watch/run_control.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::ordered_json;

constexpr char kAddress[] = "coordinator/address";
constexpr char kOrders[] = "coordinator/orders.jsonl";
constexpr mode_t kOrdersMode = 0644;
constexpr absl::string_view kOrderWords[] = {"grow", "shrink", "drain", "stop"};

std::string Dump(const ordered_json& json) {
  // Bytes of strangers may be no UTF-8.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Where the coordinator of the run listens. An operator's token is shown there, so the file must be
// one of this process's user.
absl::StatusOr<std::string> AddressOf(const std::string& folder) {
  const std::string path = JoinPath(folder, kAddress);
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (fstat(file.fd(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("'", path, "'"));
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("'", path, "' belongs to user ", info.st_uid, ", expected ", geteuid(),
                     ", who asks: watch the run as its owner to see its workers"));
  }
  char text[512];
  const ssize_t size = read(file.fd(), text, sizeof(text));
  if (size < 0) return ErrnoStatus(errno, absl::StrCat("'", path, "'"));
  return std::string(
      absl::StripAsciiWhitespace(absl::string_view(text, static_cast<size_t>(size))));
}

absl::StatusOr<std::string> AskCoordinator(const std::string& folder,
                                           const std::vector<std::string>& words,
                                           const AskRun& ask) {
  DING_ASSIGN_OR_RETURN(const std::string address, AddressOf(folder));
  return ask(address, words);
}

// Appends a line to the orders of a run, with the time. Lines of several processes do not mix.
absl::Status Note(const std::string& folder, ordered_json line) {
  const std::string path = JoinPath(folder, kOrders);
  DING_ASSIGN_OR_RETURN(
      const OpenFile file,
      OpenRegularFile(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOrdersMode));
  line["time"] = static_cast<double>(absl::ToUnixMillis(Clock::Real()->Now())) / 1000;
  const std::string text = absl::StrCat(Dump(line), "\n");
  const ssize_t written = write(file.fd(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return ErrnoStatus(written < 0 ? errno : ENOSPC, absl::StrCat("cannot write '", path, "'"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunControl>> RunControl::Start(AskRun ask) {
  auto control = absl::WrapUnique(new RunControl(std::move(ask)));
  DING_ASSIGN_OR_RETURN(control->thread_,
                        StartThread("asking runs", [self = control.get()] { self->Run(); }));
  return control;
}

RunControl::~RunControl() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void RunControl::Run() {
  for (;;) {
    std::function<void()> order;
    std::string folder;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && orders_.empty() && questions_.empty()) {
        changed_.WaitUntil(&mutex_, Deadline::Never());
      }
      if (stopping_) return;
      if (!orders_.empty()) {
        order = std::move(orders_.front());
        orders_.pop_front();
      } else {
        folder = std::move(questions_.front());
        questions_.pop_front();
      }
    }
    order != nullptr ? order() : AskStatus(folder);
  }
}

void RunControl::AskStatus(const std::string& folder) {
  const absl::StatusOr<std::string> reply = AskCoordinator(folder, {"status"}, ask_);
  MutexLock lock(&mutex_);
  Known& known = known_[folder];
  known.waiting = false;
  known.asked.emplace(Clock::Real());
  known.error = reply.ok() ? "" : std::string(reply.status().message());
  if (!reply.ok()) return;
  known.answer = known.asked;
  known.status = *reply;
}

std::string RunControl::Status(const std::string& folder) {
  if (!PathExists(JoinPath(folder, kAddress))) return "{}";
  MutexLock lock(&mutex_);
  Known& known = known_[folder];
  if (!known.waiting && (!known.asked.has_value() || known.asked->Elapsed() >= kPeriod)) {
    known.waiting = true;
    questions_.push_back(folder);
    changed_.SignalAll();
  }
  const ordered_json age =
      known.answer.has_value() ? ordered_json(known.answer->Seconds()) : ordered_json();
  return absl::StrCat("{\"age\":", age.dump(), ",\"error\":", Dump(known.error),
                      ",\"status\":", known.status, "}");
}

HttpReply RunControl::Order(const std::string& folder, const std::vector<std::string>& words,
                            const HttpRequest& who) {
  if (std::find(std::begin(kOrderWords), std::end(kOrderWords), words[0]) ==
      std::end(kOrderWords)) {
    return {400, "text/plain; charset=utf-8", "expected grow, shrink, drain or stop\n", {}};
  }
  const ordered_json line = {{"time", 0},
                             {"who", who.role},
                             {"token", who.token},
                             {"from", who.address},
                             {"order", absl::StrJoin(words, " ")}};
  auto body = std::make_shared<std::optional<std::string>>();  // guarded by mutex_
  MutexLock lock(&mutex_);
  if (orders_.size() >= kMaxOrders) return {503, "text/plain", "too many orders wait\n", {}};
  orders_.push_back([this, folder, line, body, words] {
    const absl::Status written = Note(folder, line);
    const auto reply =
        written.ok() ? AskCoordinator(folder, words, ask_) : absl::StatusOr<std::string>(written);
    const ordered_json answer = {{"done", reply.ok()},
                                 {"answer", reply.ok() ? *reply : reply.status().message()}};
    ordered_json second = line;
    second.update(answer);
    const absl::Status noted = Note(folder, second);
    if (!noted.ok()) DING_LOG(WARNING) << "the answer to an order: " << noted.message();
    MutexLock lock(&mutex_);
    *body = Dump(answer);
  });
  changed_.SignalAll();
  HttpReply reply = {200, "application/json", "", {}};
  reply.next = [this, body, sent = false]() mutable -> std::optional<std::string> {
    if (sent) return std::nullopt;
    MutexLock lock(&mutex_);
    sent = body->has_value();
    return body->value_or("");
  };
  return reply;
}

}  // namespace ding
