// Events of a run: log lines that say what happens to it, such as a worker that joins. They go
// where all lines go (log.h). A LogSink that keeps events asks CurrentLogEvent().
//
// Threads: thread-safe.
//
// Example:
//   DING_LOG_EVENT(INFO, {EventKind::kJoin, name}) << name << " joined as worker " << id;
#ifndef DING_WORKER_BASE_LOG_EVENT_H_
#define DING_WORKER_BASE_LOG_EVENT_H_

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "ding_worker/base/check.h"
#include "ding_worker/base/log.h"  // IWYU pragma: export

namespace ding {

// docs/reference/events.md describes the kinds.
enum class EventKind {
  kNone,
  kStart,
  kEnd,
  kEvaluation,
  kCheckpoint,
  kFault,
  kJoin,
  kLeave,
  kRefusal,
};

struct LogEvent {
  EventKind kind = EventKind::kNone;
  std::string name{};       // what it happens to, such as a worker; empty: not known
  int64_t env_step = -1;    // of the run; -1: not known
  int64_t train_iter = -1;  // likewise
  double value = std::numeric_limits<double>::quiet_NaN();  // a mean return; NaN: none
};

namespace internal_log {

inline thread_local const LogEvent* current_event = nullptr;

// Collects the message; its destructor, at the end of the statement, sends the line.
class EventMessage {
 public:
  EventMessage(LogSeverity severity, const char* file, int line, LogEvent event)
      : severity_(severity), file_(file), line_(line), event_(std::move(event)) {}
  EventMessage(const EventMessage&) = delete;
  EventMessage& operator=(const EventMessage&) = delete;
  ~EventMessage() {
    // A sink may log other events while it gets this one.
    const LogEvent* const outer = std::exchange(current_event, &event_);
    Message(severity_, file_, line_).stream() << stream_.str();
    current_event = outer;
  }
  std::ostream& stream() { return stream_; }

 private:
  const LogSeverity severity_;
  const char* const file_;
  const int line_;
  const LogEvent event_;
  std::ostringstream stream_;
};

}  // namespace internal_log

// For LogSink::Send(): the event of the line that this thread is sending. Null, or of kind kNone:
// the line is no event. A plain line that a sink logs meanwhile has the same event.
inline const LogEvent* CurrentLogEvent() { return internal_log::current_event; }

}  // namespace ding

// As DING_LOG(severity). Further arguments: the LogEvent, or its initializers in braces.
#define DING_LOG_EVENT(severity, ...)                                                            \
  !::ding::internal_log::IsWanted(DING_LOG_SEVERITY_##severity)                                  \
      ? (void)0                                                                                  \
      : ::ding::internal_base::Voidify() &&                                                      \
            ::ding::internal_log::EventMessage(DING_LOG_SEVERITY_##severity, __FILE__, __LINE__, \
                                               __VA_ARGS__)                                      \
                .stream()

#endif  // DING_WORKER_BASE_LOG_EVENT_H_
