#include "ding_worker/metrics/event_log.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using ::ding::internal_metrics::AppendFile;
using Json = nlohmann::ordered_json;

struct Kind {
  EventKind kind;
  bool bounded;  // whether workers and other peers decide how often it happens
  const char* event;
  const char* meaning;
  const char* name;  // what the member "name" is
};

constexpr Kind kKinds[] = {
    {EventKind::kStart, false, "start", "the run begins, or goes on", "`new` or `resumed`"},
    {EventKind::kEnd, false, "end", "the run ends; the text says why",
     "`finished`, `interrupted` or `failed`"},
    {EventKind::kEvaluation, false, "evaluation", "an evaluation or a confirmation has ended",
     "the evaluator or, in a parallel run, the task"},
    {EventKind::kCheckpoint, false, "checkpoint",
     "a checkpoint is written; resume points have no event", "the checkpoint"},
    {EventKind::kFault, true, "fault",
     "anything that the log has as a warning or an error: a worker is lost, an env fails, a file "
     "cannot be written",
     "the worker, if it is gone"},
    {EventKind::kJoin, true, "join", "a worker joins", "the worker"},
    {EventKind::kLeave, true, "leave", "a worker leaves, as it was told", "the worker"},
    {EventKind::kRefusal, true, "refusal",
     "a peer is refused, a worker is sent away, or an operator's request is refused",
     "the worker, if it is sent away"},
};

struct Member {
  const char* name;
  const char* meaning;
};

constexpr Member kMembers[] = {
    {"time", "seconds since 1970, in UTC, to the millisecond"},
    {"event", "the kind of the event"},
    {"name", "see the first table"},
    {"env_step", "env steps of the run so far"},
    {"train_iter", "train iterations of the run so far; of an evaluation: those of its policy"},
    {"value",
     "of an evaluation: its mean return, or the score of an evaluator of your own; of an "
     "end: the last evaluation's"},
    {"left_out",
     "how many events were left out since the line before: at most 600 a minute of the "
     "last four kinds are written"},
    {"text", "what the log says, at most 2,000 bytes"},
};

const Kind& Find(EventKind kind) {
  for (const Kind& known : kKinds) {
    if (known.kind == kind) return known;
  }
  DING_CHECK(false) << "no kind " << static_cast<int>(kind);
  return kKinds[0];
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Create(const std::string& path,
                                                           const Clock* clock) {
  AppendFile::Options options;
  options.clock = clock;
  options.flush_interval = absl::ZeroDuration();
  options.record_end = '\n';
  DING_ASSIGN_OR_RETURN(auto file, AppendFile::Open(path, options));
  return std::unique_ptr<EventLog>(new EventLog(clock, std::move(file)));
}

EventLog::EventLog(const Clock* clock, std::unique_ptr<AppendFile> file)
    : clock_(clock), file_(std::move(file)), minute_(clock) {}

void EventLog::Write(const LogLine& line) {
  LogEvent event;
  if (const LogEvent* const current = CurrentLogEvent()) event = *current;
  if (event.kind == EventKind::kNone) {
    if (line.severity < LogSeverity::kWarning) return;
    event.kind = EventKind::kFault;
  }
  const Kind& kind = Find(event.kind);
  const MutexLock lock(&mutex_);
  if (kind.bounded && !MayWrite()) {
    ++left_out_;
    return;
  }
  Json json;
  json["event"] = kind.event;
  if (!event.name.empty()) json["name"] = PrintableUtf8(event.name);
  if (event.env_step >= 0) json["env_step"] = event.env_step;
  if (event.train_iter >= 0) json["train_iter"] = event.train_iter;
  if (std::isfinite(event.value)) json["value"] = event.value;
  if (left_out_ > 0) json["left_out"] = std::exchange(left_out_, 0);
  json["text"] = PrintableUtf8(line.message.substr(0, kMaxTextBytes), /*keep=*/"\n");
  const std::string members = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const double time = 1e-3 * static_cast<double>(absl::ToUnixMillis(clock_->Now()));
  file_->Append(absl::StrCat(absl::StrFormat("{\"time\":%.3f,", time),
                             absl::string_view(members).substr(1), "\n"));
}

bool EventLog::MayWrite() {
  if (minute_.Elapsed() >= absl::Minutes(1)) {
    minute_ = Timer(clock_);
    in_minute_ = 0;
  }
  return ++in_minute_ <= kMaxPerMinute;
}

absl::Status EventLog::Flush() {
  const MutexLock lock(&mutex_);
  return file_->Flush();
}

absl::string_view NameOf(RunEnd end) {
  switch (end) {
    case RunEnd::kFinished:
      return "finished";
    case RunEnd::kInterrupted:
      return "interrupted";
    case RunEnd::kFailed:
      break;
  }
  return "failed";
}

std::string EventTable() {
  std::string text = "| event | what happens | `name` |\n|---|---|---|\n";
  for (const Kind& kind : kKinds) {
    absl::StrAppend(&text, "| `", kind.event, "` | ", kind.meaning, " | ", kind.name, " |\n");
  }
  absl::StrAppend(&text, "\n| member | what it is |\n|---|---|\n");
  for (const Member& member : kMembers) {
    absl::StrAppend(&text, "| `", member.name, "` | ", member.meaning, " |\n");
  }
  return text;
}

}  // namespace ding
