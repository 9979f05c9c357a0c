// Log lines. They go to stderr, or to the sink that the program sets: our own programs set glog,
// and a program that links one of our modules may set its own. Only packages that run something log
// (collector, learner, coordinator and those above them); the others return a Status.
//
// Ownership: the caller owns the sink.
// Threads:   thread-safe.
//
// Example:
//   DING_LOG(INFO) << name << " joined as worker " << id;
//   DING_LOG_IF(WARNING, lost > 0) << lost << " rows are lost";
//   DING_LOG_EVERY_N(WARNING, 100) << status.message();   // the 1st, 101st, 201st ... time that it
//                                                         is reached
//   DING_LOG_FIRST_N(WARNING, 1) << status.message();     // the first time
//
//   class MySink : public ding::LogSink {
//     void Send(const ding::LogLine& line) override { my_log(line.file, line.line, line.message); }
//   };
//   ding::SetLogSink(new MySink);  // in main(); it is never deleted
#ifndef DING_WORKER_BASE_LOG_H_
#define DING_WORKER_BASE_LOG_H_

#include <atomic>
#include <cstdint>
#include <sstream>

#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"

namespace ding {

// kVerbose: details that few people want, such as each episode of an evaluation.
enum class LogSeverity { kVerbose, kInfo, kWarning, kError };

struct LogLine {
  LogSeverity severity;
  const char* file;  // the path that the compiler was given
  int line;
  absl::string_view message;  // without a line end; valid during the call
};

class LogSink {
 public:
  virtual ~LogSink() = default;
  // Any thread may call it, also several at the same time. If it logs a line itself, it is called
  // for that line, too.
  virtual void Send(const LogLine& line) = 0;
};

// Sends the lines to `sink` from now on, or to stderr if it is null. Returns the previous sink,
// which is null for stderr. Destroy a sink only when another one is set, and when all calls that
// were logging at that time have returned.
LogSink* SetLogSink(LogSink* sink);

// Drops lines below `least` from now on, without evaluating their messages. Returns the previous
// bound. It is kInfo at first.
LogSeverity SetMinLogSeverity(LogSeverity least);

namespace internal_log {

bool IsWanted(LogSeverity severity);

// Collects the message; its destructor, at the end of the statement, sends the line.
class Message {
 public:
  Message(LogSeverity severity, const char* file, int line)
      : severity_(severity), file_(file), line_(line) {}
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message();
  std::ostream& stream() { return stream_; }

 private:
  const LogSeverity severity_;
  const char* const file_;
  const int line_;
  std::ostringstream stream_;
};

}  // namespace internal_log
}  // namespace ding

#define DING_LOG_SEVERITY_VERBOSE ::ding::LogSeverity::kVerbose
#define DING_LOG_SEVERITY_INFO ::ding::LogSeverity::kInfo
#define DING_LOG_SEVERITY_WARNING ::ding::LogSeverity::kWarning
#define DING_LOG_SEVERITY_ERROR ::ding::LogSeverity::kError

#define DING_LOG_STREAM_(severity, condition)                \
  !(::ding::internal_log::IsWanted(severity) && (condition)) \
      ? (void)0                                              \
      : ::ding::internal_base::Voidify() &&                  \
            ::ding::internal_log::Message(severity, __FILE__, __LINE__).stream()

// How often this place was reached before, counting from 0.
#define DING_LOG_COUNT_()                   \
  [] {                                      \
    static std::atomic<int64_t> reached{0}; \
    return reached.fetch_add(1);            \
  }()

// The severity is VERBOSE, INFO, WARNING or ERROR. The message of a dropped line is not evaluated.
#define DING_LOG(severity) DING_LOG_STREAM_(DING_LOG_SEVERITY_##severity, true)
#define DING_LOG_IF(severity, condition) DING_LOG_STREAM_(DING_LOG_SEVERITY_##severity, condition)
#define DING_LOG_EVERY_N(severity, n) \
  DING_LOG_STREAM_(DING_LOG_SEVERITY_##severity, DING_LOG_COUNT_() % (n) == 0)
#define DING_LOG_FIRST_N(severity, n) \
  DING_LOG_STREAM_(DING_LOG_SEVERITY_##severity, DING_LOG_COUNT_() < (n))

#endif  // DING_WORKER_BASE_LOG_H_
