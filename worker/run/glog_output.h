// Sends the log lines of this process to glog, which has its own flags, files and sinks.
#ifndef DING_WORKER_WORKER_RUN_GLOG_OUTPUT_H_
#define DING_WORKER_WORKER_RUN_GLOG_OUTPUT_H_

namespace ding {

// From now on, until somebody sets another sink (base/log.h); with glog's flag --v=1 or above also those of
// severity VERBOSE. May be called again, from any thread.
void LogToGlog();

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_GLOG_OUTPUT_H_
