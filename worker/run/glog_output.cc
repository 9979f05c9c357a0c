#include "ding_worker/worker/run/glog_output.h"

#include "ding_worker/base/log.h"
#include "glog/logging.h"

namespace ding {
namespace {

class GlogOutput : public LogSink {
 public:
  void Send(const LogLine& line) override {
    google::LogMessage(line.file, line.line, Severity(line.severity)).stream() << line.message;
  }

 private:
  static google::LogSeverity Severity(LogSeverity severity) {
    switch (severity) {
      case LogSeverity::kVerbose:
      case LogSeverity::kInfo:
        return google::GLOG_INFO;
      case LogSeverity::kWarning:
        return google::GLOG_WARNING;
      case LogSeverity::kError:
        break;
    }
    return google::GLOG_ERROR;
  }
};

}  // namespace

void LogToGlog() {
  if (FLAGS_v > 0) SetMinLogSeverity(LogSeverity::kVerbose);
  // It lives until the process ends, because any thread may log until then.
  static GlogOutput* const output = new GlogOutput;
  SetLogSink(output);
}

}  // namespace ding
